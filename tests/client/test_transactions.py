"""Transactional producers in a whole house: listeners, questions, consumers (P-60 to P-62)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import (
    ConsumeFromWhere,
    Message,
    MessageExt,
    TransactionProducer,
    TransactionState,
)
from pocketmq.client.listener_threads import InlineThreads
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.messages import properties as names
from support.consuming import Collected
from support.eventually import eventually
from support.memory_cluster import MemoryCluster, memory_cluster

COMMIT, ROLLBACK, UNKNOWN = TransactionState


class Books:
    """An application: remembers what it did, and what it was asked."""

    def __init__(self, local: object = COMMIT, later: object = COMMIT) -> None:
        self.local = local
        self.later = later
        self.done: list[object] = []
        self.asked: list[MessageExt] = []

    async def execute_local_transaction(
        self, message: Message, argument: object
    ) -> TransactionState:
        self.done.append(argument)
        if isinstance(self.local, Exception):
            raise self.local
        return self.local  # type: ignore[return-value]  # some tests answer nonsense

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        self.asked.append(message)
        if isinstance(self.later, Exception):
            raise self.later
        return self.later  # type: ignore[return-value]


def transactional(cluster: MemoryCluster, listener: Any, **options: Any) -> TransactionProducer:
    return TransactionProducer(
        "bookings", listener, threads=InlineThreads(), **(cluster.client_options | options)
    )


async def consumed(cluster: MemoryCluster, count: int) -> list[bytes]:
    """What a new group gets, when it has got so many and then nothing for a while."""
    collected = Collected()
    consumer = cluster.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer.subscribe("T")
    consumer.listen(collected)
    async with consumer:
        await cluster.until(lambda: len(collected) >= count, f"{count} are consumed")
        await cluster.advance(2)
    return sorted(collected.bodies)


@pytest.mark.parametrize("encoding", ["msgpack", "json", "rocketmq"])
async def test_consumers_get_what_is_committed(tmp_path: Path, encoding: str) -> None:  # P-60
    async with memory_cluster(tmp_path, profile="5.3") as cluster:
        await cluster.create_topic("T")
        books = Books()
        async with transactional(cluster, books, encoding=encoding) as producer:
            for number, state in enumerate([COMMIT, ROLLBACK, COMMIT]):
                books.local = state
                message = Message("T", b"%d" % number, delay_level=3)
                result = await producer.send_in_transaction(message, number)
                assert (result.state, result.error) == (state, None)
                assert result.send.transaction_id == result.send.msg_id
            assert await consumed(cluster, 2) == [b"0", b"2"]
        assert books.done == [0, 1, 2]
        assert books.asked == []


@pytest.mark.parametrize(
    "delay", [{names.DELAY: "3"}, {names.TIMER_DELAY_SEC: "1"}, {names.TIMER_DELIVER_MS: "1"}]
)
async def test_from_5_5_on_a_delayed_message_is_no_half_message(
    tmp_path: Path, delay: dict[str, str]
) -> None:  # P-60
    async with memory_cluster(tmp_path, profile="5.5") as cluster:
        await cluster.create_topic("T")
        books = Books()
        async with transactional(cluster, books) as producer:
            with pytest.raises(IllegalMessageError, match="cannot be delayed"):
                await producer.send_in_transaction(Message("T", b"x", properties=delay), 1)
        assert books.done == []


@pytest.mark.parametrize(
    "local", [UNKNOWN, RuntimeError("the database is gone"), "committed", None]
)
async def test_what_is_not_known_is_asked_for(tmp_path: Path, local: object) -> None:  # P-62
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        books = Books(local)
        async with transactional(cluster, books) as producer:
            result = await producer.send_in_transaction(Message("T", b"1", keys="k", tags="t"))
            assert result.state is UNKNOWN
            assert result.error is (local if isinstance(local, Exception) else None)
            await cluster.until(lambda: books.asked, "it is asked")
            [asked] = books.asked
            assert (asked.topic, asked.body, asked.keys, asked.tags) == ("T", b"1", "k", "t")
            assert await consumed(cluster, 1) == [b"1"]


async def test_a_member_that_never_sent_is_asked_for_what_others_left(tmp_path: Path) -> None:
    # P-62: so it is with producers of RocketMQ 4.9, by the route of TBW102; those of 5.3 must send
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        async with transactional(cluster, Books(UNKNOWN)) as producer:
            await producer.send_in_transaction(Message("T", b"1", keys="k"))
        books = Books()
        async with transactional(cluster, books, instance_name="another"):
            await cluster.until(lambda: books.asked, "the other member is asked")
            assert await consumed(cluster, 1) == [b"1"]
        assert books.asked[0].keys == "k"
        assert books.done == []


async def test_a_check_that_fails_is_repeated(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        books = Books(UNKNOWN, later=ValueError("not now"))
        async with transactional(cluster, books) as producer:
            await producer.send_in_transaction(Message("T", b"1"))
            await cluster.until(lambda: books.asked, "it is asked")
            books.later = COMMIT
            await cluster.until(lambda: len(books.asked) == 2, "it is asked again")
            assert await consumed(cluster, 1) == [b"1"]


async def test_another_process_answers_for_one_that_died(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        dead, alive = Books(UNKNOWN), Books()
        async with transactional(cluster, dead, instance_name="dead") as producer:
            await producer.send_in_transaction(Message("T", b"1"))
        async with transactional(cluster, alive, instance_name="alive") as other:
            await other.send_in_transaction(Message("T", b"2"))  # so that it knows the broker
            await other.config.clock.sleep(0)
            await cluster.until(lambda: alive.asked, "the other is asked")
            assert await consumed(cluster, 2) == [b"1", b"2"]
        assert dead.asked == []


async def test_a_plain_producer_of_the_group_cannot_answer_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        async with transactional(cluster, Books(UNKNOWN)) as producer:
            await producer.send_in_transaction(Message("T", b"1"))
        async with cluster.producer("bookings") as plain:
            await plain.send(Message("T", b"plain"))
            await cluster.advance(31)
        await eventually(lambda: "transaction.check_refused" in capsys.readouterr().out, "a word")


async def test_a_property_that_is_the_broker_s_is_refused(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        await cluster.create_topic("T")
        message = Message("T", b"1", properties={"TRAN_PREPARED_QUEUE_OFFSET": "1"})
        async with transactional(cluster, Books()) as producer:
            with pytest.raises(IllegalMessageError, match="TRAN_PREPARED_QUEUE_OFFSET"):
                await producer.send_in_transaction(message)
