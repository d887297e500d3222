"""Groups and conversations with a Java and a Python member: transactions, requests, replies."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import (
    Admin,
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from support.cluster import running
from support.eventually import PATIENCE_MS
from support.java import JavaError, JavaRun, run_java
from support.java_versions import brokers
from support.real_rocketmq import real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]

COUNT = 5
LIMIT_S = 120
SETTINGS = {
    "transactionTimeOut": 1000, "transactionCheckInterval": 2000, "transactionCheckMax": 100,
    "transactionOpBatchInterval": 300,
}  # fmt: skip
OURS = (
    "--transaction-time-out-ms", "1000", "--transaction-check-interval-ms", "2000",
    "--transaction-check-max", "100",
)  # fmt: skip


class Answers:
    """Leaves all transactions open, and answers every question in the same way."""

    def __init__(self, state: TransactionState) -> None:
        self.state = state
        self.asked: set[str] = set()

    def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.UNKNOWN

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        self.asked.add(message.keys or "")
        return self.state


async def talk(nameservers: str) -> JavaRun:
    """Our side of the program `MixedMembers`; returns what that printed."""
    options: dict[str, Any] = {"nameservers": nameservers, "encoding": "json"}
    async with Admin(**options, api_timeout_ms=PATIENCE_MS) as admin:
        for topic in ("Booked", "AskJava", "AskPython"):
            await admin.create_topic(topic)
    open_ones = TransactionProducer(
        "python-bookings", Answers(TransactionState.UNKNOWN), send_timeout_ms=PATIENCE_MS, **options
    )
    async with open_ones:
        for index in range(COUNT):
            message = Message("Booked", b"seat", keys=f"python-{index}")
            await open_ones.send_in_transaction(message, index)
    first = {"consume_from_where": ConsumeFromWhere.FIRST_OFFSET}
    judge = Answers(TransactionState.COMMIT)
    replies = Producer("python-replies", send_timeout_ms=PATIENCE_MS, **options)
    asked, booked = (PushConsumer(group, **options, **first) for group in ("asked", "booked"))
    asked.subscribe("AskPython")
    booked.subscribe("Booked")

    async def answer(message: MessageExt) -> None:
        await replies.send_reply(message, b"python: " + message.body)

    asked.listen(answer)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(
            TransactionProducer("java-bookings", judge, send_timeout_ms=PATIENCE_MS, **options)
        )
        for each in (replies, asked, booked):
            await stack.enter_async_context(each)
        java = asyncio.create_task(
            asyncio.to_thread(run_java, "MixedMembers", nameservers, COUNT, timeout_s=LIMIT_S * 2)
        )
        for index in range(COUNT):
            request = Message("AskJava", b"%d" % index)
            reply = await replies.request(request, timeout_ms=LIMIT_S * 1000)
            assert reply.body == b"java: %d" % index
        run = await java
        async with asyncio.timeout(LIMIT_S):
            keys = [message.keys async for message in booked.take(2 * COUNT)]
    assert sorted(map(str, keys)) == [
        f"{who}-{n}" for who in ("java", "python") for n in range(COUNT)
    ]
    assert judge.asked == {f"java-{index}" for index in range(COUNT)}
    return run


def check(run: JavaRun) -> None:
    """The Java side did all of its part."""
    assert run.lines("MIXED") == [
        ["judged", str(COUNT), "replied", str(COUNT), "asked", str(COUNT)]
    ]


async def test_java_and_python_share_transactions_and_talk_with_us(tmp_path: Path) -> None:
    async with running(tmp_path, *OURS) as cluster:
        try:
            check(await talk(cluster.nameservers))
        except JavaError as exc:
            raise JavaError(f"{exc}\n{cluster.story()}") from None


if "5.3.3" in brokers():  # by hand

    async def test_java_and_python_share_transactions_and_talk_with_rocketmq(
        tmp_path: Path,
    ) -> None:
        with real_rocketmq(tmp_path / "store", settings=SETTINGS) as cluster:
            check(await talk(cluster.namesrv_addr))
