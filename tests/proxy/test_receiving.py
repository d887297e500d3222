"""Receives, acks and renewals by requests to a broker, on a manual clock (G-82 to G-97)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import Message
from pocketmq.client.config import ClientConfig
from pocketmq.client.instances import acquire, release
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.errors import BadRequestError, BrokerError
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.consuming.receiving import Handed, Receive, Receiving
from pocketmq.proxy.consuming.renewing import Renewing
from pocketmq.proxy.consuming.requests import PopRequests
from pocketmq.proxy.handles.polling import Polling
from pocketmq.proxy.handles.receipts import Receipt
from pocketmq.proxy.protos.enums import Code
from pocketmq.runtime.tasks import TaskOwner
from support.eventually import eventually
from support.memory_cluster import MemoryCluster, memory_cluster


class Rig:
    """The consuming half of a proxy, in front of a cluster with the topic T."""

    def __init__(self, cluster: MemoryCluster, instance: Any, tasks: TaskOwner) -> None:
        self.cluster = cluster
        self.online = True
        self.requests = PopRequests(instance, 4 * 1024 * 1024)
        self.renewing = Renewing(
            cluster.clock, self.requests, lambda client, group: self.online, self._config, tasks
        )
        self.receiving = Receiving(self.requests, self.renewing, tasks)

    async def _config(self, group: str) -> SubscriptionGroupConfig:
        return SubscriptionGroupConfig(group_name=group)

    async def send(self, *bodies: str, tags: str | None = None) -> None:
        async with self.cluster.producer() as producer:
            for body in bodies:
                await producer.send(Message("T", body.encode(), tags=tags))

    def wanted(self, **changes: Any) -> Receive:
        values: dict[str, Any] = {
            "client_id": "client-1",
            "group": "G",
            "topic": "T",
            "broker_name": "a",
            "batch_size": 32,
            "invisible_ms": 60_000,
            "polling": Polling(5_000, None),
            "subscription": SubscriptionData.parse("T", "*", 0),
            "fifo": False,
            "max_attempts": 17,
            "attempt_id": None,
            "auto_renew": False,
        }
        return Receive(**(values | changes))

    async def receive(self, **changes: Any) -> list[Handed] | None:
        """What a receive brings, while time passes."""
        task = asyncio.ensure_future(self.receiving.receive(self.wanted(**changes)))
        for _ in range(30):
            done, _ = await asyncio.wait({task}, timeout=0.02)
            if done:
                break
            await self.cluster.advance(0.5)
        return await task

    async def ack(self, handed: Handed, **changes: str) -> None:
        names = {"topic": "T", "group": "G"} | changes
        receipt = await self.renewing.newest(
            "client-1", "G", handed.message.msg_id, handed.receipt.text
        )
        await self.requests.ack(receipt, **names)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with rig_at(tmp_path) as made:
        yield made


@asynccontextmanager
async def rig_at(folder: Path, **options: Any) -> AsyncIterator[Rig]:
    async with memory_cluster(folder, "a", **options) as cluster:
        await cluster.create_topic("T", 1)
        config = await ClientConfig.of(cluster.client_options).with_identity(unique=True)  # type: ignore[arg-type]
        instance = acquire(config)
        async with TaskOwner("rig") as tasks:
            await instance.lookups.refresh_route("T")
            made = Rig(cluster, instance, tasks)
            made.renewing.start()
            try:
                yield made
            finally:
                await made.renewing.stop()
        await release(instance)


def bodies(handed: list[Handed] | None) -> list[str]:
    return [each.message.body.decode() for each in handed or []]


async def test_what_is_acknowledged_does_not_come_again(rig: Rig) -> None:
    await rig.send("one", "two")
    handed = await rig.receive()
    assert bodies(handed) == ["one", "two"]
    assert handed is not None
    for each in handed:
        await rig.ack(each)
    assert await rig.receive(polling=Polling(200, None)) is None
    await rig.cluster.advance(70)
    assert await rig.receive(polling=Polling(200, None)) is None


async def test_a_message_nobody_acknowledged_comes_again_from_the_retry_topic(rig: Rig) -> None:
    await rig.send("one")
    (first,) = await rig.receive() or []
    await rig.cluster.advance(65)
    (second,) = await rig.receive() or []
    assert second.message.topic == "T"
    assert second.receipt.mark != "0"
    assert second.message.reconsume_times == 1
    await rig.ack(second)
    with pytest.raises(Refusal, match=r"^receipt handle is expired$") as caught:
        await rig.ack(first)
    assert caught.value.code == Code.INVALID_RECEIPT_HANDLE


async def test_a_changed_time_gives_a_handle_that_acknowledges(rig: Rig) -> None:
    await rig.send("one")
    (handed,) = await rig.receive() or []
    changed = await rig.requests.change(handed.receipt, "T", "G", 30_000)
    assert changed.commit_log_offset == handed.message.commit_log_offset
    assert changed.invisible_ms == 30_000
    await rig.requests.ack(changed, "T", "G")
    await rig.cluster.advance(70)
    assert await rig.receive(polling=Polling(200, None)) is None


async def test_a_handle_that_names_no_broker_is_refused(rig: Rig) -> None:
    now = rig.cluster.clock.time_ms()
    receipt = Receipt.parse(f"0 {now} 60000 0 0 nobody 0 0 0")
    for request in (
        rig.requests.ack(receipt, "T", "G"),
        rig.requests.change(receipt, "T", "G", 1_000),
        rig.requests.to_dead_letters(receipt, "T", "G", "m"),
    ):
        with pytest.raises(Refusal, match=r"^cannot find broker nobody$") as caught:
            await request
        assert caught.value.code == Code.INVALID_RECEIPT_HANDLE


async def test_what_a_broker_refuses_is_an_abnormal_status(rig: Rig) -> None:
    now = rig.cluster.clock.time_ms()
    receipt = Receipt.parse(f"0 {now} 60000 0 0 a 77 0 0")  # no such queue
    with pytest.raises(Refusal, match=r"^ack failed: status is abnormal$"):
        await rig.requests.ack(receipt, "T", "G")
    with pytest.raises(Refusal, match=r"^changeInvisibleDuration failed: status is abnormal$"):
        await rig.requests.change(receipt, "T", "G", 1_000)


async def test_a_handle_of_eight_words_cannot_be_given_up(rig: Rig) -> None:
    receipt = Receipt.parse("0 1 2 3 0 a 0 0")
    with pytest.raises(Refusal, match=r"^commit log offset is empty$") as caught:
        await rig.requests.to_dead_letters(receipt, "T", "G", "m")
    assert caught.value.code == Code.INVALID_RECEIPT_HANDLE


async def test_what_is_given_up_lies_among_the_dead_letters_once(rig: Rig) -> None:
    await rig.send("one")
    (handed,) = await rig.receive() or []
    message_id = handed.message.msg_id
    await rig.requests.to_dead_letters(handed.receipt, "T", "G", message_id)
    await rig.cluster.advance(70)
    assert await rig.receive(polling=Polling(200, None)) is None
    assert await dead_letters(rig) == [message_id]


async def dead_letters(rig: Rig) -> list[str]:
    await eventually(lambda: rig.cluster.queues_of("%DLQ%G"), "dead letters have a topic")
    handed = await rig.receive(topic="%DLQ%G", group="undertaker")
    return [each.message.msg_id for each in handed or []]


async def test_what_was_tried_too_often_goes_to_the_dead_letters(rig: Rig) -> None:
    await rig.send("one")
    for _ in range(2):
        assert bodies(await rig.receive(max_attempts=2)) == ["one"]
        await rig.cluster.advance(65)
    assert await rig.receive(max_attempts=2) == []
    assert len(await dead_letters(rig)) == 1


async def test_a_tag_whose_hash_collides_is_acknowledged_and_not_handed_out(rig: Rig) -> None:
    await rig.send("Aa", tags="Aa")
    await rig.send("BB", tags="BB")  # Java's hash of both is 2112
    filtered = rig.wanted(subscription=SubscriptionData.parse("T", "BB", 0)).subscription
    assert bodies(await rig.receive(subscription=filtered)) == ["BB"]
    await rig.cluster.advance(70)
    assert bodies(await rig.receive(subscription=filtered)) == ["BB"]  # was not acknowledged


async def test_a_filter_that_cannot_be_read_is_the_brokers_refusal(rig: Rig) -> None:
    wrong = SubscriptionData.parse("T", "a >", 0, expression_type="SQL92")
    with pytest.raises(BrokerError) as caught:
        await rig.receive(subscription=wrong)
    assert caught.value.code in (1, 23)


async def test_a_held_message_is_renewed_for_as_long_as_its_client_works(rig: Rig) -> None:
    await rig.send("one")
    (handed,) = await rig.receive(auto_renew=True) or []
    await rig.cluster.advance(600)
    assert await rig.receive(polling=Polling(200, None)) is None
    await rig.ack(handed)  # with the first handle, which expired nine minutes ago
    await rig.cluster.advance(4_000)
    assert await rig.receive(polling=Polling(200, None)) is None
    assert len(rig.renewing.held) == 0


async def test_what_a_client_held_that_has_gone_comes_again_soon(rig: Rig) -> None:
    await rig.send("one")
    assert bodies(await rig.receive(auto_renew=True)) == ["one"]
    rig.online = False
    await rig.cluster.advance(10)
    assert bodies(await rig.receive()) == ["one"]


async def test_after_three_hours_a_message_comes_again_by_its_groups_backoff(rig: Rig) -> None:
    await rig.send("one")
    assert bodies(await rig.receive(auto_renew=True)) == ["one"]
    await rig.cluster.advance(3 * 3600 + 2 * 3600)
    assert len(rig.renewing.held) == 0
    (second,) = await rig.receive() or []
    assert second.message.reconsume_times == 1


async def test_what_is_popped_for_a_client_that_has_gone_is_given_back(rig: Rig) -> None:
    gone = asyncio.ensure_future(rig.receiving.receive(rig.wanted(auto_renew=True)))
    await asyncio.wait({gone}, timeout=0.1)
    gone.cancel()
    with suppress(asyncio.CancelledError):
        await gone
    await rig.send("one")  # the broker still holds the pop, and answers it now
    await rig.cluster.advance(5)
    assert bodies(await rig.receive()) == ["one"]
    assert len(rig.renewing.held) == 0


async def test_a_client_whose_deadline_nears_is_answered_though_the_clock_stands(rig: Rig) -> None:
    assert await rig.receiving.receive(rig.wanted(polling=Polling(5_000, 50))) is None
    await rig.send("one")
    await rig.cluster.advance(5)
    assert bodies(await rig.receive()) == ["one"]


async def test_what_was_not_written_to_a_client_is_given_back(rig: Rig) -> None:
    await rig.send("one")
    handed = await rig.receive(auto_renew=True)
    assert handed is not None
    rig.receiving.give_back(rig.wanted(), handed)
    await rig.cluster.advance(5)
    assert bodies(await rig.receive()) == ["one"]


async def test_an_ordered_group_gets_nothing_behind_a_message_it_works_on(rig: Rig) -> None:
    await rig.send("one", "two")
    (first,) = await rig.receive(fifo=True, batch_size=1) or []
    assert await rig.receive(fifo=True, batch_size=1, polling=Polling(200, None)) is None
    again = await rig.receive(fifo=True, batch_size=1)
    assert again is None
    await rig.ack(first)
    assert bodies(await rig.receive(fifo=True, batch_size=1)) == ["two"]


async def test_an_ordered_receive_that_is_repeated_gets_the_same_messages(rig: Rig) -> None:
    await rig.send("one", "two")
    assert bodies(await rig.receive(fifo=True, attempt_id="try")) == ["one", "two"]
    assert bodies(await rig.receive(fifo=True, attempt_id="try")) == ["one", "two"]
    assert await rig.receive(fifo=True, attempt_id="new", polling=Polling(200, None)) is None


async def test_garbage_is_no_handle(rig: Rig) -> None:
    with pytest.raises(BadRequestError, match=r"^Parse failed, dataList size 1$"):
        await rig.renewing.newest("client-1", "G", "m", "garbage")
