"""Timers over a store in a folder, on a manual clock, without a broker around them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.store import (
    Disk,
    FlushDiskType,
    MessageStore,
    OsDisk,
    PutStatus,
    StoreConfig,
    StoredMessage,
)
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.delivered import WhenKept
from pocketmq.broker.timers.files import TimerFiles
from pocketmq.broker.timers.log import TimerLog
from pocketmq.broker.timers.rules import TimerRules, to_timer_topic
from pocketmq.broker.timers.service import TimerService
from pocketmq.broker.timers.state import TimerState
from pocketmq.broker.timers.wheel import TimerWheel
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.manual_time.manual_clock import AtMoment, ManualClock
from pocketmq.runtime.profile import PROFILE_5_X
from support.tiny_store import HOST

START_MS = 1_700_000_000_000


class WallClock(ManualClock):
    """A clock whose wall time can be set back."""

    _back_ms = 0

    def set_back(self, by_ms: int) -> None:
        self._back_ms += by_ms

    def time_ms(self) -> int:
        return super().time_ms() - self._back_ms

    async def move_to(self, time_ms: int, at_moment: AtMoment | None = None) -> int:
        return await super().move_to(time_ms + self._back_ms, at_moment)


class TimerRig:
    """A store with timers."""

    def __init__(
        self,
        root: Path,
        clock: ManualClock,
        rules: TimerRules,
        disk: Disk,
        log_file: int,
        flush: FlushDiskType,
        when_kept: WhenKept | None = None,
    ) -> None:
        self.clock = clock
        self.rules = rules
        config = StoreConfig(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=1 << 20,
            mapped_file_size_consume_queue=20 * 1000,
            message_index_enable=False,
            flush_disk_type=flush,
        )
        self.store = MessageStore(config, disk, clock, PROFILE_5_X.broker, on_arrival=self._arrived)
        self.wheel = TimerWheel(rules.precision_ms)
        self.log = TimerLog(disk, str(root), log_file)
        self.counts = TimerCounts()
        self.files = TimerFiles(disk, str(root), self.log, self.wheel, self.counts)
        state = TimerState(rules, self.wheel, self.log, self.files, self.counts)
        self.timers = TimerService(self.store, clock, state, BrokerStats(), when_kept)

    async def start(self) -> None:
        await self.timers.load()
        self.store.load()
        self.timers.recovered()
        self.store.start()
        await self.timers.start()

    def _arrived(self, topic: str, *_: object) -> None:
        if topic == TIMER_TOPIC:
            self.timers.arrived()

    async def stop(self) -> None:
        await self.timers.stop()
        await self.store.close()

    def send(self, body: bytes, topic: str = "T", **properties: str) -> int | None:
        """Put a message as a broker does that got it from a producer; its TIMER_OUT_MS."""
        texts = dict(properties)
        message = StoredMessage(
            topic, 0, body, encode_properties(texts).encode(), 0, 0, START_MS, HOST, HOST,
            uniq_key=texts.get("UNIQ_KEY"),
        )  # fmt: skip
        out_ms = self.rules.out_ms(texts, self.clock.time_ms())
        if out_ms is not None:
            to_timer_topic(message, texts, out_ms)
        [result] = self.store.put_messages([message])
        assert result.status is PutStatus.PUT_OK
        return out_ms

    async def advance(self, seconds: float) -> None:
        await self.clock.move_to(self.clock.time_ms() + round(seconds * 1000))

    def queue(self, topic: str = "T") -> list[MessageExt]:
        """Everything in queue 0 of a topic."""
        found: list[MessageExt] = []
        offset = 0
        while offset < self.store.reads.max_offset(topic, 0):
            result = self.store.reads.get_message(topic, 0, offset, 32)
            found += decode_records(b"".join(result.records))
            offset = result.next_begin_offset
        return found

    def bodies(self, topic: str = "T") -> list[bytes]:
        return [bytes(message.body) for message in self.queue(topic)]


@asynccontextmanager
async def timers_at(
    root: Path,
    *,
    now_ms: int = START_MS,
    clock: ManualClock | None = None,
    rules: TimerRules | None = None,
    disk: Disk | None = None,
    log_file: int = 52 * 100,
    flush: FlushDiskType = FlushDiskType.ASYNC_FLUSH,
    when_kept: WhenKept | None = None,
) -> AsyncIterator[TimerRig]:
    """Started timers; stopped at the end."""
    rig = TimerRig(
        root,
        clock or ManualClock(now_ms),
        rules or TimerRules(),
        disk or OsDisk(),
        log_file,
        flush,
        when_kept,
    )
    await rig.start()
    try:
        yield rig
    finally:
        await rig.stop()


def late_ms(message: MessageExt, due_ms: int) -> int:
    """How long after its time a message was stored."""
    assert names.TIMER_DEQUEUE_MS in message.properties
    return message.store_timestamp_ms - due_ms
