"""What lies in `timerwheel`, `timerlog/` and `config/timercheck`, to the byte (T-110 to T-115).

timerwheel          one slot per second of 14 days; a slot leads to the newest record of its second
timerlog/           records, each leading to the one before it in its slot and to the message
config/timercheck   how far the wheel topic is logged, and up to which slot all is delivered
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pocketmq.broker.tables.topic_counts import TopicCount
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.layout import Field, Layout
from pocketmq.protocol.store_layout import MAGIC_BLANK

SLOTS = 7 * 86_400 * 2
"""Slots of the wheel, whatever the precision: seven days, twice."""
BLANK_SLOTS = 60
"""This many of a round stay unused, so that a slot is never written before it was read."""

SLOT = Layout(
    Field("time", "q", "in units of the precision; 0 was never used"),
    Field("firstPos", "q", "timer log position of the slot's oldest record"),
    Field("lastPos", "q", "of its newest, from which the others are found"),
    Field("num", "i", "messages less cancels"),
    Field("magic", "i", "0"),
)
RECORD = Layout(
    Field("size", "i", "52"),
    Field("prevPos", "q", "position of the slot's record before this one, -1 for the first"),
    Field("magic", "i", "1, with 2 for a message that rolls and 4 for a cancel"),
    Field("currWriteTime", "q", "when it was logged, ms"),
    Field("delayTime", "i", "ms from then to the slot's time"),
    Field("offsetPy", "q", "commit log offset of the message"),
    Field("sizePy", "i", "its size"),
    Field("hashCode", "i", "Java's hash of the real topic"),
    Field("reserved", "q", "0"),
)
BLANK = Layout(
    Field("size", "i", "bytes left in the file"),
    Field("prevPos", "q", "0"),
    Field("magic", "I", "`0xCBD43194`"),
)
CHECKPOINT = Layout(
    Field("lastReadTimeMs", "q", "all slots before it are delivered"),
    Field("lastTimerLogFlushPos", "q", "the timer log is on the disk up to here"),
    Field("lastTimerQueueOffset", "q", "next offset of the wheel topic to be logged"),
    Field("masterTimerQueueOffset", "q", "the master's; a master's own is the same"),
    Field("stateVersion", "q", "of the table of counts"),
    Field("timestamp", "q", "of the table of counts"),
    Field("counter", "q", "of the table of counts"),
)
CHECKPOINT_SIZE = 4096
WHEEL_SIZE = SLOTS * SLOT.struct.size
RECORD_SIZE = RECORD.struct.size
BLANK_SIZE = BLANK.struct.size

NORMAL = 1
ROLL = 2
DELETE = 4

_pack_record = RECORD.struct.pack
_BLANK_MAGIC = MAGIC_BLANK & 0xFFFFFFFF


class Slot(NamedTuple):
    """What the wheel knows of one time."""

    first: int
    last: int
    waiting: int
    magic: int = 0


class LogRecord(NamedTuple):
    """One message or cancel in the timer log."""

    previous: int
    magic: int
    logged_ms: int
    delay_ms: int
    physical_offset: int
    size: int
    topic_hash: int

    @property
    def slot_ms(self) -> int:
        """Time of the slot that it is in."""
        return self.logged_ms + self.delay_ms

    @property
    def is_roll(self) -> bool:
        """Whether its message waits on when this slot comes up."""
        return bool(self.magic & ROLL)

    @property
    def is_delete(self) -> bool:
        """Whether it cancels a message of its slot."""
        return bool(self.magic & DELETE)

    def encode(self) -> bytes:
        """Its 52 bytes."""
        return pack_record(*self)

    @classmethod
    def decode(cls, data: bytes | memoryview, at: int = 0) -> LogRecord | None:
        """The record at a place; None when none stands there."""
        if len(data) - at < RECORD_SIZE:
            return None
        size, previous, magic, logged, delay, physical, length, topic, _ = (
            RECORD.struct.unpack_from(data, at)
        )
        # The lowest four bits are flags; other bits mean that this is no record.
        if size != RECORD_SIZE or magic | 0xF != 0xF:
            return None
        return cls(previous, magic, logged, delay, physical, length, topic)


def pack_record(*fields: int) -> bytes:
    """The 52 bytes of a `LogRecord` of these fields, without making one."""
    return _pack_record(RECORD_SIZE, *fields, 0)


def blank(left: int) -> bytes:
    """What closes a file with `left` bytes free (T-113)."""
    return BLANK.struct.pack(left, 0, _BLANK_MAGIC)


def is_blank(data: bytes | memoryview, at: int) -> bool:
    """Whether the file is closed at this place."""
    # Less room than a blank needs also closes the file: no record fits there (T-113).
    if len(data) - at < BLANK_SIZE:
        return True
    return int(BLANK.struct.unpack_from(data, at)[2]) == _BLANK_MAGIC


class Checkpoint(NamedTuple):
    """How far the timers are."""

    read_ms: int = 0
    flushed_position: int = 0
    queue_offset: int = 0
    master_queue_offset: int = 0
    version: DataVersion = DataVersion()

    def encode(self) -> bytes:
        """56 bytes, as the file begins and as GET_TIMER_CHECK_POINT (60) is answered."""
        version = self.version
        return CHECKPOINT.struct.pack(
            self.read_ms,
            self.flushed_position,
            self.queue_offset,
            self.master_queue_offset,
            version.state_version,
            version.timestamp,
            version.counter,
        )

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Checkpoint:
        """Read one; what is too short counts as zeros."""
        # Older versions have a shorter file; the missing fields are 0.
        padded = bytes(data[: CHECKPOINT.struct.size]).ljust(CHECKPOINT.struct.size, b"\0")
        read, flushed, queue, master, state, timestamp, counter = CHECKPOINT.struct.unpack(padded)
        version = DataVersion(state_version=state, timestamp=timestamp, counter=counter)
        return cls(read, flushed, queue, master, version)


class TimerMetrics(BodyStruct, kw_only=True, omit_defaults=False):
    """Waiting messages by real topic (61, T-115); `config/timermetrics`."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    timing_count: dict[str, TopicCount] = msgspec.field(default_factory=dict)
