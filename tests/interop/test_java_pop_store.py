"""A killed broker's timers, popped and half messages: a broker of the other kind finishes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.timers.layout import Checkpoint
from pocketmq.client import (
    Admin,
    ConsumeFromWhere,
    Message,
    MessageExt,
    MessageSelector,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from pocketmq.protocol.fastjson import FastjsonError, parse
from pocketmq.runtime.errors import PocketMQError
from support.cluster import running
from support.eventually import PATIENCE_MS, eventually
from support.real_rocketmq import real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

SETTINGS = {
    "timerWheelEnable": "true", "mappedFileSizeTimerLog": 1 << 20, "enablePropertyFilter": "true",
    "transactionTimeOut": 1000, "transactionCheckInterval": 5000, "transactionCheckMax": 100,
}  # fmt: skip
OURS = (
    "--revive-queue-num", "1", "--mapped-file-size-timer-log", str(1 << 20),
    "--transaction-time-out-ms", "1000", "--transaction-check-interval-ms", "5000",
    "--transaction-check-max", "100", "--profile", "5.3", "--enable-property-filter",
)  # fmt: skip
EXPRESSION = "number > 5"
HALVES = {f"half-{n}" for n in range(3)}
TIMED = {b"timed-%d" % n for n in range(10)}
POPPED = {b"popped-%d" % n for n in range(10)}
DONE = {b"popped-%d" % n for n in range(4)}


def options(nameservers: str) -> dict[str, Any]:
    return {"nameservers": nameservers, "encoding": "json"}


def consumer(nameservers: str) -> SimpleConsumer:
    made = SimpleConsumer(
        "poppers", consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **options(nameservers)
    )
    made.subscribe("T")
    return made


class Undecided:
    """Leaves every transaction open; of those that it is asked for one is rolled back."""

    def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.UNKNOWN

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        if message.keys == "half-1":
            return TransactionState.ROLLBACK
        return TransactionState.COMMIT


class Silent(Undecided):
    """Knows nothing when it is asked."""

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOWN


async def begin(nameservers: str, store: Path) -> None:
    """Leave ten timers, ten popped messages of which four are done, and three half messages."""
    by_sql = PushConsumer("by-sql", **options(nameservers))
    by_sql.subscribe("T", MessageSelector.by_sql(EXPRESSION))
    by_sql.listen(lambda _: None)
    async with Admin(**options(nameservers), api_timeout_ms=PATIENCE_MS) as admin:
        await admin.create_topic("T", queues=4)
    async with by_sql:
        await eventually(lambda: kept_filter(store) == EXPRESSION, "the expression is kept")
        await _begin(nameservers, store)


async def _begin(nameservers: str, store: Path) -> None:
    producer = TransactionProducer(
        "bookings", Silent(), send_timeout_ms=PATIENCE_MS, **options(nameservers)
    )
    async with producer:
        for key in sorted(HALVES):
            await producer.send_in_transaction(Message("Booked", key.encode(), keys=key), None)
    async with Producer("p", send_timeout_ms=PATIENCE_MS, **options(nameservers)) as producer:
        for body in sorted(POPPED):
            await producer.send(Message("T", body))
        taken: list[MessageExt] = []
        async with consumer(nameservers) as popper:
            while len(taken) < len(POPPED):
                taken += await popper.receive(32, invisible_s=20, wait_s=2)
            await popper.ack(*(message for message in taken if message.body in DONE))
        for body in sorted(TIMED):
            await producer.send(Message("T", body, delay_ms=20_000))
    # A check point, four acks and ten timers at least; RocketMQ writes them down once a second.
    file = store / "config" / "timercheck"
    await eventually(lambda: Checkpoint.decode(file.read_bytes()).queue_offset >= 15, "all logged")
    await eventually(lambda: handed_out(store) == len(POPPED), "the group's offsets are saved")


def _kept(file: Path) -> dict[str, Any]:
    """What a JSON file holds; nothing while RocketMQ writes it anew."""
    try:
        found: dict[str, Any] = parse(file.read_text())
    except (FileNotFoundError, FastjsonError):
        return {}
    return found


def kept_filter(store: Path) -> str | None:
    """The expression of the group by-sql in `consumerFilter.json`."""
    topics = _kept(store / "config" / "consumerFilter.json").get("filterDataByTopic", {})
    found: str | None = (
        topics.get("T", {}).get("groupFilterData", {}).get("by-sql", {}).get("expression")
    )
    return found


def handed_out(store: Path) -> int:
    """How far the file of offsets says that the popping group is."""
    table = _kept(store / "config" / "consumerOffset.json").get("offsetTable", {})
    return sum(table.get("T@poppers", {}).values())


async def finish(nameservers: str, _store: Path) -> None:
    """All that is left comes: what waited once, what was not acknowledged again."""
    left = TIMED | (POPPED - DONE)
    found: dict[bytes, int] = {}
    async with consumer(nameservers) as popper:
        for _ in range(300):
            if found.keys() >= left:
                break
            some: list[MessageExt] = []
            with suppress(PocketMQError, TimeoutError):  # the broker may not be routed yet
                some = await popper.receive(32, invisible_s=60, wait_s=1)
                await popper.ack(*some)
            for message in some:
                found[message.body] = message.reconsume_times
    assert found.keys() == left
    assert {found[body] for body in TIMED} == {0}
    assert {found[body] for body in POPPED - DONE} == {1}
    reader = PushConsumer(
        "bookings", consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **options(nameservers)
    )
    reader.subscribe("Booked")
    asked = TransactionProducer(
        "bookings", Undecided(), send_timeout_ms=PATIENCE_MS, **options(nameservers)
    )
    booked: set[str | None] = set()
    async with asked, reader, asyncio.timeout(240):
        # RocketMQ notes up to 3 s later that a half is decided: it may ask, and deliver, again.
        async for message in reader:
            booked.add(message.keys)
            if booked >= {"half-0", "half-2"}:
                break
    assert booked == {"half-0", "half-2"}


async def test_rocketmq_finishes_what_we_began(tmp_path: Path) -> None:
    async with running(tmp_path, *OURS) as cluster:
        await begin(cluster.nameservers, tmp_path / "broker-a")
        await cluster.broker("a").kill()
    store = tmp_path / "broker-a"
    await _with_rocketmq(store, finish)
    assert kept_filter(store) == EXPRESSION  # RocketMQ has read our file, and written it anew


async def test_we_finish_what_rocketmq_began(tmp_path: Path) -> None:
    await _with_rocketmq(tmp_path / "broker-a", begin, kill=True)
    async with running(tmp_path, *OURS) as cluster:
        await finish(cluster.nameservers, tmp_path / "broker-a")
    assert kept_filter(tmp_path / "broker-a") == EXPRESSION


async def _with_rocketmq(
    store: Path, work: Callable[[str, Path], Awaitable[None]], *, kill: bool = False
) -> None:
    started = real_rocketmq(store, settings=SETTINGS)
    cluster = await asyncio.to_thread(started.__enter__)
    try:
        await work(cluster.namesrv_addr, store)
        await asyncio.to_thread(cluster.kill_broker if kill else cluster.stop_broker)
    finally:
        await asyncio.to_thread(started.__exit__, None, None, None)
