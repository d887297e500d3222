"""Behaviours 31 and 64 to 70: who gets a message, how often, and where it ends.

Over loopback TCP, on a manual clock, with the production nameserver and broker; scripted brokers
where a test must see what they are asked.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pocketmq.client import (
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
    Message,
    MessageExt,
    MessageModel,
    MessageQueue,
)
from pocketmq.client.consumer.progress.local_offsets import decode_offsets
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2
from support.consuming import Collected, consuming, queues_of
from support.eventually import eventually
from support.tcp import tcp_cluster, tcp_rig

BROADCASTING = MessageModel.BROADCASTING
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
RETRY, DLQ = "%RETRY%consumers", "%DLQ%consumers"
QUEUE = MessageQueue("T", "a", 0)


def sent_topics(requests: list[Command]) -> list[str]:
    """Topics of the sends among some requests, in their order."""
    return [
        request.header(SendMessageRequestHeaderV2).topic
        for request in requests
        if request.code == RequestCode.SEND_MESSAGE_V2
    ]


class Refusing:
    """Fails on `bad`, orderly or not, and remembers every try."""

    def __init__(self, answer: ConsumeOrderlyStatus | ConsumeConcurrentlyStatus) -> None:
        self.answer = answer
        self.tries: list[tuple[bytes, int]] = []

    async def __call__(
        self, message: MessageExt
    ) -> ConsumeOrderlyStatus | ConsumeConcurrentlyStatus | None:
        self.tries.append((message.body, message.reconsume_times))
        return self.answer if message.body == b"bad" else None


# -- who ------------------------------------------------------------------------------------------


async def test_a_newcomer_has_its_share_after_the_next_round() -> None:
    # behaviour 31: C-24
    async with tcp_rig() as rig:  # its brokers tell nobody of anything
        one, two = consuming(rig, Collected()), consuming(rig, Collected())
        async with one:
            await eventually(lambda: len(one.assignment) == 4, "one has all")
            await rig.advance(5)
            async with two:
                await eventually(lambda: len(two.assignment) == 2, "the broker names both")
                assert len(one.assignment) == 4, "one does not know yet"
                await rig.advance(14.9)
                assert len(one.assignment) == 4
                await rig.advance(0.1)
                await eventually(lambda: len(one.assignment) == 2, "its round has come")
                assert not set(one.assignment) & set(two.assignment)


async def test_normally_a_notification_tells_everybody_at_once(tmp_path: Path) -> None:
    # behaviour 31: B-24
    async with tcp_cluster(tmp_path, profile="4.9") as cluster:
        await cluster.create_topic("T")
        one, two = consuming(cluster, Collected()), consuming(cluster, Collected())
        async with one:
            await eventually(lambda: len(queues_of(one)) == 4, "one has all")
            async with two:
                await eventually(lambda: len(queues_of(one)) == 2, "while the clock stands still")
                await eventually(lambda: len(queues_of(two)) == 2, "the newcomer has the rest")


async def test_broadcasting_keeps_its_offsets_in_a_file_clustering_on_the_broker(
    tmp_path: Path,
) -> None:
    # behaviour 64: C-65, C-66
    async with tcp_cluster(tmp_path) as cluster:
        await cluster.create_topic("T", queues=1)
        folder = tmp_path / "offsets"
        each, one = Collected(), Collected()
        broadcasting = consuming(
            cluster,
            each,
            group="each",
            message_model=BROADCASTING,
            local_offset_store_dir=folder,
        )
        clustering = consuming(cluster, one, group="one", local_offset_store_dir=folder)
        async with broadcasting, clustering, cluster.producer() as producer:
            for body in (b"0", b"1", b"2"):
                await producer.send(Message("T", body))
            await cluster.until(lambda: len(each) == len(one) == 3, "both groups are done")
            await cluster.advance(15)
            [file] = [
                path for path in folder.rglob("*") if path.is_file() and path.suffix != ".bak"
            ]
            assert file == folder / broadcasting.client_id / "each" / "offsets.json"
            assert broadcasting.client_id.endswith("@DEFAULT"), "or it would not find it again"
            assert decode_offsets(file.read_text()) == {QUEUE: 3}
            offsets = cluster.brokers["a"].offsets
            assert offsets.query("one", "T", 0) == 3
            assert offsets.query("each", "T", 0) is None


async def test_broadcasting_gives_every_member_every_message_clustering_one_of_them(
    tmp_path: Path,
) -> None:
    # behaviour 65: C-23, C-24
    async with tcp_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        await cluster.create_topic("T")
        every, some = [Collected(), Collected()], [Collected(), Collected()]
        members = [
            consuming(
                cluster,
                got,
                group="each",
                message_model=BROADCASTING,
                instance_name=f"each-{number}",
                local_offset_store_dir=tmp_path / "offsets",
            )
            for number, got in enumerate(every)
        ]
        members += [consuming(cluster, got, group="one") for got in some]
        for member in members:
            await stack.enter_async_context(member)
        await cluster.until(
            lambda: [len(queues_of(each)) for each in members] == [4, 4, 2, 2],
            "each broadcasting member has all queues, each clustering one a half",
        )
        await cluster.advance(1)
        expected = [b"%02d" % number for number in range(20)]
        producer = await stack.enter_async_context(cluster.producer())
        for body in expected:
            await producer.send(Message("T", body))
        await eventually(lambda: [each.bodies for each in every] == [expected] * 2, "all have all")
        await eventually(lambda: sorted(some[0].bodies + some[1].bodies) == expected, "once")
        assert [len(each) for each in some] == [10, 10]


async def test_pulls_follow_each_other_while_no_clock_moves() -> None:
    """The seed calls it a timed thread; in the source a queue of pull requests drives it."""
    # behaviour 66: C-35
    async with tcp_rig(queues=1) as rig:
        broker, got = rig.brokers[0], Collected()
        async with consuming(rig, got, profile="4.9"):
            for number in range(30):
                await eventually(lambda: len(broker.held) == 1, "the next pull is there")
                broker.put("T", 0, b"%02d" % number)
                await eventually(lambda: len(got) == number + 1, "consumed")  # noqa: B023
            await eventually(
                lambda: broker.count(RequestCode.PULL_MESSAGE) == 31, "one pull after each message"
            )


# -- how often ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "tries"), [(0, [0]), (2, [0, 1, 2])])
async def test_an_orderly_message_is_given_up_when_its_count_equals_the_maximum(
    tmp_path: Path, most: int, tries: list[int]
) -> None:
    """The seed says "greater than"; the source "greater than or equal"."""
    # behaviour 67: C-60
    async with tcp_cluster(tmp_path) as cluster, cluster.producer() as producer:
        await cluster.create_topic("T", queues=1)
        listener = Refusing(SUSPEND)
        async with consuming(cluster, listener, orderly=True, max_reconsume_times=most):
            await producer.send(Message("T", b"bad"))
            await producer.send(Message("T", b"good"))
            await cluster.until(lambda: listener.tries[-1:] == [(b"good", 0)], "the queue goes on")
        assert [times for body, times in listener.tries if body == b"bad"] == tries


async def test_by_default_an_orderly_message_blocks_its_queue_practically_for_ever() -> None:
    # behaviour 68: C-60
    assert PushSettings().max_retries(orderly=True) == 2_147_483_647
    async with tcp_rig(queues=1) as rig:
        broker, listener = rig.brokers[0], Refusing(SUSPEND)
        broker.put_many("T", 0, [b"bad", b"good"])
        async with consuming(rig, listener, orderly=True):
            await rig.advance(60)
            assert len(listener.tries) > 50
            assert listener.tries == [(b"bad", n) for n in range(len(listener.tries))]
            assert broker.sent_back == []
            assert broker.count(RequestCode.SEND_MESSAGE_V2) == 0


async def test_a_concurrent_consumer_asks_for_16_retries_by_default() -> None:
    # behaviour 68: C-60
    assert PushSettings().max_retries(orderly=False) == 16
    async with tcp_rig(queues=1) as rig:
        broker = rig.brokers[0]
        broker.put("T", 0, b"bad")
        listener = Refusing(ConsumeConcurrentlyStatus.RECONSUME_LATER)
        async with consuming(rig, listener, profile="4.9"):
            await eventually(lambda: broker.sent_back, "it is sent back")
        assert broker.sent_back[0].max_reconsume_times == 16


# -- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", ["4.9", "5.x"])
async def test_over_the_limit_it_goes_to_the_retry_topic_and_the_broker_makes_it_a_dead_letter(
    tmp_path: Path, profile: str
) -> None:
    """The seed sends to the dead letter topic itself."""
    # behaviour 69: B-86, C-60
    async with (
        tcp_cluster(tmp_path, profile=profile) as cluster,
        cluster.producer() as producer,
    ):
        await cluster.create_topic("T", queues=1)
        listener = Refusing(SUSPEND)
        async with consuming(cluster, listener, orderly=True, max_reconsume_times=1):
            await producer.send(Message("T", b"bad"))
            store = cluster.brokers["a"].store
            await cluster.until(lambda: store.reads.max_offset(DLQ, 0) == 1, "it is a dead letter")
            assert sent_topics(cluster.asked["a"]) == ["T", RETRY]
            assert store.reads.max_offset(RETRY, 0) == 0
            await cluster.advance(30)
        assert [times for _, times in listener.tries] == [0, 1], "and comes no more"


async def test_the_dead_letter_topic_can_be_consumed_and_sent_to(tmp_path: Path) -> None:
    # behaviour 70: B-83
    async with tcp_cluster(tmp_path) as cluster, cluster.producer() as producer:
        await cluster.create_topic("T", queues=1)
        failing = Refusing(ConsumeConcurrentlyStatus.RECONSUME_LATER)
        async with consuming(cluster, failing, max_reconsume_times=0):
            await producer.send(Message("T", b"bad", keys="k"))
            await cluster.until(lambda: failing.tries, "it fails")
            await cluster.until(lambda: cluster.queues_of(DLQ), "the dead letter topic has a route")
        assert cluster.queues_of(DLQ) == [MessageQueue(DLQ, "a", 0)]
        config = cluster.brokers["a"].topics.table[DLQ]
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (1, 1, 6)
        got = Collected()
        async with consuming(cluster, got, DLQ, group="menders"):
            await cluster.until(lambda: got.bodies == [b"bad"], "another group reads it")
            assert got.messages[0].keys == "k"
            await producer.send(Message(DLQ, b"by hand"))
            await cluster.until(lambda: b"by hand" in got.bodies, "and what is sent there")
            await producer.send(Message("T", got.messages[0].body))
            assert cluster.brokers["a"].store.reads.max_offset("T", 0) == 2, (
                "a dead letter sent again"
            )
