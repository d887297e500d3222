"""Our push consumer pops from a real RocketMQ, and beside a Java client in one group."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from pocketmq.client import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
)
from pocketmq.protocol.message import MessageQueue
from support.cluster import running
from support.eventually import eventually
from support.java import JavaError, JavaRun, run_java
from support.real_rocketmq import real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]

COUNT = 600
GROUP = "mixed"
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


class Ours:
    """Our member: fails each hundredth message at its first try."""

    def __init__(self, nameservers: str) -> None:
        self.seen: Counter[bytes] = Counter()
        self.failed: set[bytes] = set()
        self.consumer = PushConsumer(
            GROUP,
            nameservers=nameservers,
            encoding="json",
            instance_name="ours",
            client_rebalance=False,
            pop_batch_nums=4,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        )
        self.consumer.subscribe("Mixed")
        self.consumer.listen(self.listen)

    async def listen(self, message: MessageExt) -> ConsumeConcurrentlyStatus | None:
        assert message.topic == "Mixed"
        if int(message.body) % 100 == 0 and not message.reconsume_times:
            self.failed.add(message.body)
            return LATER
        self.seen[message.body] += 1
        return None


async def pop_together(nameservers: str) -> tuple[Ours, JavaRun]:
    """Both members share what is sent; returns when the Java one has ended."""
    ours = Ours(nameservers)
    async with (
        Admin(nameservers=nameservers, encoding="json") as admin,
        Producer("senders", nameservers=nameservers, encoding="json") as producer,
    ):
        await admin.create_topic("Mixed")
        async with ours.consumer:
            await admin.set_request_mode(GROUP, "Mixed", "POP")
            args = (nameservers, "Mixed", GROUP, 25_000)
            java = asyncio.create_task(asyncio.to_thread(run_java, "PopMember", *args))
            everything = MessageQueue("Mixed", "broker-a", -1)

            async def both() -> bool:
                members = await admin.consumer_ids(GROUP, "broker-a")
                return java.done() or (len(members) == 2 and everything in ours.consumer.assignment)

            await eventually(both, "both are members", limit_s=120)
            for number in range(COUNT):
                await producer.send(Message("Mixed", b"%d" % number))
            run = await java
    return ours, run


def check(ours: Ours, run: JavaRun) -> None:
    """Every message was consumed once, by one of the two; what failed came again."""
    theirs = Counter(body.encode() for body, _ in run.lines("GOT"))
    retried = {body.encode() for body, times in run.lines("GOT") if times != "0"}
    assert ours.seen + theirs == Counter({b"%d" % number: 1 for number in range(COUNT)})
    assert min(len(ours.seen), len(theirs)) > 0, "both took part; who pops first gets more"
    assert retried <= ours.failed


async def test_our_member_and_a_java_member_share_a_group_with_us(tmp_path: Path) -> None:
    async with running(tmp_path, "--revive-queue-num", "1") as cluster:
        try:
            check(*await pop_together(cluster.nameservers))
        except JavaError as exc:
            raise JavaError(f"{exc}\n{cluster.story()}") from None


async def test_our_member_and_a_java_member_share_a_group_with_rocketmq(tmp_path: Path) -> None:
    with real_rocketmq(tmp_path / "store", settings={"timerWheelEnable": "true"}) as cluster:
        check(*await pop_together(cluster.namesrv_addr))
