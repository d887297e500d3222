"""Our push consumer pops from a real RocketMQ, and beside a Java client in one group."""

from __future__ import annotations

import asyncio
import contextlib
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
from pocketmq.protocol.messages.message import MessageQueue
from support.cluster import running
from support.eventually import PATIENCE_MS, eventually
from support.java import JavaError, java_command
from support.real_rocketmq import real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]

COUNT = 600
EARLY = 60
"""What is sent while our member is alone, so that it has its part for certain."""
PART = COUNT // 20
GROUP = "mixed"
LATER = ConsumeConcurrentlyStatus.RECONSUME_LATER


class Ours:
    """Our member: holds what it gets until released, and fails each tenth at its first try."""

    def __init__(self, nameservers: str) -> None:
        self.begun = 0
        self.seen: Counter[bytes] = Counter()
        self.failed: set[bytes] = set()
        self.released = asyncio.Event()
        self.consumer = PushConsumer(
            GROUP,
            nameservers=nameservers,
            encoding="json",
            instance_name="ours",
            client_rebalance=False,
            pop_batch_nums=4,
            consume_thread_max=EARLY,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        )
        self.consumer.subscribe("Mixed")
        self.consumer.listen(self.listen)

    async def listen(self, message: MessageExt) -> ConsumeConcurrentlyStatus | None:
        assert message.topic == "Mixed"
        self.begun += 1
        await self.released.wait()
        if int(message.body) % 10 == 0 and not message.reconsume_times:
            self.failed.add(message.body)
            return LATER
        self.seen[message.body] += 1
        return None


class Theirs:
    """The Java member, a child process whose lines are read as it prints them."""

    def __init__(self, nameservers: str) -> None:
        self._command = java_command("PopMember", nameservers, "Mixed", GROUP, 25_000)
        self.lines: list[list[str]] = []
        self.ended = False

    async def run(self) -> None:
        """From its start to its end; raises JavaError when it fails."""
        pipe = asyncio.subprocess.PIPE
        java = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        assert java.stdout is not None
        try:
            async for line in java.stdout:
                word, *rest = line.decode().split() or [""]
                if word == "GOT":
                    self.lines.append(rest)
            if await java.wait():
                raise JavaError(f"PopMember: exit status {java.returncode}")
        finally:
            self.ended = True
            with contextlib.suppress(ProcessLookupError):
                java.kill()


async def pop_together(nameservers: str) -> tuple[Ours, Theirs]:
    """Both members share what is sent; returns when the Java one has ended.

    Ours holds a part that it got while alone. It takes at most 100 before it stops popping, so
    the rest is the Java member's; ours goes on once that one has its part too.
    """
    ours, theirs = Ours(nameservers), Theirs(nameservers)
    async with (
        Admin(nameservers=nameservers, encoding="json", api_timeout_ms=PATIENCE_MS) as admin,
        Producer(
            "senders", nameservers=nameservers, encoding="json", send_timeout_ms=PATIENCE_MS
        ) as producer,
    ):
        await admin.create_topic("Mixed")
        await admin.set_request_mode(GROUP, "Mixed", "POP")
        async with ours.consumer, asyncio.TaskGroup() as tasks:
            everything = MessageQueue("Mixed", "broker-a", -1)
            await eventually(lambda: everything in ours.consumer.assignment, "ours is a member")
            for number in range(EARLY):
                await producer.send(Message("Mixed", b"%d" % number))
            await eventually(lambda: ours.begun == EARLY, "ours holds its part")
            run = tasks.create_task(theirs.run())
            for number in range(EARLY, COUNT):
                await producer.send(Message("Mixed", b"%d" % number))
            await eventually(
                lambda: len(theirs.lines) > PART or run.done(), "Java has a part", limit_s=120
            )
            ours.released.set()
            await run
    return ours, theirs


def check(ours: Ours, theirs: Theirs) -> None:
    """Every message was consumed once, by one of the two; what failed came again."""
    got = Counter(body.encode() for body, _ in theirs.lines)
    retried = {body.encode() for body, times in theirs.lines if times != "0"}
    assert ours.seen + got == Counter({b"%d" % number: 1 for number in range(COUNT)})
    assert min(len(ours.seen), len(got)) > PART, "both took part"
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
