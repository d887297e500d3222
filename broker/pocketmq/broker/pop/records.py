"""What pop writes into the revive topic: check points and acks, in RocketMQ's JSON (K-70 to K-74).

A pop stores one check point: which messages were handed out, and when they become visible again. An
ack stores one ack record. Both are timer messages, so they reach the revive topic at that time.
Then every message of a check point that no ack names is delivered once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final, TypeVar

import msgspec

from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.scalars import Int32, Int64

CHECK_POINT_TAG = "ck"
ACK_TAG = "ack"
BATCH_ACK_TAG = "bAck"

AHEAD_MS = 1000
"""A check point is due this much before its acks (K-70)."""
MOST_MESSAGES: Final = 32
"""Of one check point: `bm` is an int of Java's, and no pop takes more."""

MAX_BODY_BYTES: Final = 65_536
"""Longer ones are not read: anyone may send to the topic, and a record has less than 2 KB."""

LONGEST_AHEAD_MS: Final = 10_000
"""Timers deliver a check point 2 s before it is due at most; no other waits longer than this."""

MergeKey = tuple[str, str, int, int, int, str]
"""What matches an ack to its check point: topic, group, queue, start offset, pop time, broker."""


class CheckPoint(
    msgspec.Struct,
    kw_only=True,
    rename={
        "bit_map": "bm",
        "broker_name": "bn",
        "group": "c",
        "distances": "d",
        "invisible_ms": "it",
        "count": "n",
        "pop_time_ms": "pt",
        "queue_id": "q",
        "revive_time_ms": "reviveTime",
        "revive_offset": "ro",
        "put_again": "rp",
        "start_offset": "so",
        "suspended": "sp",
        "topic": "t",
    },
    omit_defaults=True,
):
    """Messages of one queue that one pop handed out. Fields stand in the order they are written."""

    bit_map: Int64 = msgspec.field(default_factory=lambda: 0)
    """Bit i: the message at `distances[i]` is acknowledged."""
    broker_name: str | None = None
    group: str
    distances: Annotated[list[Int32], msgspec.Meta(max_length=MOST_MESSAGES)] | None = None
    """Queue offsets, counted from `start_offset`; None in what old brokers wrote."""
    invisible_ms: Int64
    count: Annotated[int, msgspec.Meta(ge=0, le=MOST_MESSAGES)]
    pop_time_ms: Int64
    queue_id: Int32
    revive_time_ms: Int64 = msgspec.field(default_factory=lambda: 0)
    """Derived; written, and ignored when read."""
    revive_offset: Int64 = msgspec.field(default_factory=lambda: 0)
    put_again: str | None = None
    """How often it was stored again because a message could not be delivered."""
    start_offset: Int64
    suspended: bool | None = None
    """Its revival counts no try (K-57); None, and not written, before RocketMQ 5.5."""
    topic: str

    def __post_init__(self) -> None:
        self.revive_time_ms = self.pop_time_ms + self.invisible_ms

    @property
    def key(self) -> MergeKey:
        """What its acks name."""
        return (
            self.topic,
            self.group,
            self.queue_id,
            self.start_offset,
            self.pop_time_ms,
            self.broker_name or "",
        )

    @property
    def is_done(self) -> bool:
        """Whether every message is acknowledged."""
        return self.bit_map == (1 << self.count) - 1

    def index_of(self, offset: int) -> int | None:
        """Which message the offset means; None for one that it does not hold (K-73)."""
        distance = offset - self.start_offset
        # With distances, messages need not be consecutive (K-72).
        if self.distances:
            return self.distances.index(distance) if distance in self.distances else None
        # Old brokers wrote only the number of consecutive messages.
        return distance if 0 <= distance < self.count else None

    def offset_of(self, index: int) -> int:
        """Queue offset of message number `index`."""
        return self.start_offset + (self.distances[index] if self.distances else index)

    def acknowledge(self, offset: int) -> bool:
        """Set the bit of a message; False when the check point does not hold it."""
        index = self.index_of(offset)
        if index is None:
            return False
        self.bit_map |= 1 << index
        return True

    def stored_at(self, stored_ms: int) -> None:
        """It was read in the revive topic, where it was stored at a time.

        One that a client wrote may name any time, and all behind it would wait for that.
        """
        self.revive_time_ms = min(self.revive_time_ms, stored_ms + LONGEST_AHEAD_MS)

    def acknowledge_all(self, offsets: Iterable[int]) -> None:
        """`acknowledge` each, however many there are."""
        # Remove duplicates: a client's ack may name one offset many times.
        named = frozenset(offsets)
        if len(named) == 1:  # nearly all acks that are not batches
            self.acknowledge(*named)
            return
        for index in range(self.count):
            if self.offset_of(index) in named:
                self.bit_map |= 1 << index

    def open_offsets(self) -> list[int]:
        """Queue offsets that nobody acknowledged."""
        return [self.offset_of(i) for i in range(self.count) if not self.bit_map >> i & 1]

    @property
    def uniq_key(self) -> str:
        """UNIQ_KEY of the record."""
        return record_key(
            self.topic, self.queue_id, str(self.start_offset), self.group, self.pop_time_ms,
            self.broker_name, CHECK_POINT_TAG,
        )  # fmt: skip

    def encode(self) -> bytes:
        """The record's body."""
        return _encode(self)

    @classmethod
    def of_pop(
        cls,
        handle_parts: tuple[str, str, int, str],
        offsets: Sequence[int],
        pop_time_ms: int,
        invisible_ms: int,
        *,
        suspended: bool | None = None,
    ) -> CheckPoint:
        """The check point of messages just read.

        Args:
            handle_parts: group, topic, queue id, broker name.
            offsets: of the messages, in order; the first is the start offset.
            pop_time_ms: of the answer.
            invisible_ms: until they are seen again.
            suspended: whether that counts as no try; None where a release does not say it.
        """
        group, topic, queue_id, broker_name = handle_parts
        start = offsets[0]
        return cls(
            broker_name=broker_name,
            group=group,
            # RocketMQ writes distances even for consecutive messages.
            distances=list(range(len(offsets)))
            if offsets[-1] - start == len(offsets) - 1
            else [offset - start for offset in offsets],
            invisible_ms=invisible_ms,
            count=len(offsets),
            pop_time_ms=pop_time_ms,
            queue_id=queue_id,
            start_offset=start,
            suspended=suspended,
            topic=topic,
        )


class Ack(
    msgspec.Struct,
    kw_only=True,
    rename={
        "offset": "ao",
        "offsets": "aol",
        "broker_name": "bn",
        "group": "c",
        "pop_time_ms": "pt",
        "queue_id": "q",
        "start_offset": "so",
        "topic": "t",
    },
    omit_defaults=True,
):
    """One acknowledged message, or with `offsets` several of one check point."""

    offset: Int64
    offsets: list[Int64] | None = None
    broker_name: str | None = None
    group: str
    pop_time_ms: Int64
    queue_id: Int32
    start_offset: Int64
    topic: str

    @property
    def tag(self) -> str:
        """Tag of the record."""
        return ACK_TAG if self.offsets is None else BATCH_ACK_TAG

    @property
    def acknowledged(self) -> Iterable[int]:
        """Queue offsets."""
        return (self.offset,) if self.offsets is None else self.offsets

    def key(self, own_broker: str) -> MergeKey:
        """Of the check point that it belongs to; old records do not name the broker (K-74)."""
        return (
            self.topic,
            self.group,
            self.queue_id,
            self.start_offset,
            self.pop_time_ms,
            self.broker_name or own_broker,
        )

    @property
    def uniq_key(self) -> str:
        """UNIQ_KEY of the record."""
        return record_key(
            self.topic, self.queue_id, str(self.offset), self.group, self.pop_time_ms,
            self.broker_name, ACK_TAG,
        )  # fmt: skip

    def encode(self) -> bytes:
        """The record's body."""
        return _encode(self)


def record_key(
    topic: str, queue_id: int, what: str, group: str, pop_time_ms: int, broker: str | None, tag: str
) -> str:
    """UNIQ_KEY of a record in the revive topic (K-70)."""
    key = f"{topic}@{queue_id}@{what}@{group}@{pop_time_ms}"
    # In old releases, the key has no broker name and ends with the tag (K-72).
    return f"{key}@{tag}" if broker is None else f"{key}@{broker}@{tag}"


def decode_check_point(body: bytes | memoryview) -> CheckPoint:
    """Read a check point.

    Raises:
        BadRequestError: it is none.
    """
    point = _decode(body, CheckPoint)
    distances = point.distances or ()
    # Any client may send to this topic: refuse numbers beyond Java's long, which would fail later.
    if not (
        point.queue_id >= 0
        and (not distances or point.count <= len(distances))
        and all(map(_is_long, (point.start_offset + each for each in distances)))
        and _is_long(point.pop_time_ms + point.invisible_ms)
    ):
        raise BadRequestError(f"{_INVALID}: one of its numbers is out of range")
    return point


def decode_ack(body: bytes | memoryview) -> Ack:
    """Read an ack or a batch of them, under short names or long ones (K-72).

    Raises:
        BadRequestError: it is none.
    """
    try:
        return _decode(body, Ack)
    except BadRequestError:
        # Older brokers wrote long names, so a body that fails is read a second time (K-72).
        fields = _decode(body, dict[str, object])
        renamed = {_SHORT.get(name, name): value for name, value in fields.items()}
        try:
            return msgspec.convert(renamed, Ack, strict=False)
        except msgspec.ValidationError as exc:
            raise BadRequestError(f"{_INVALID}: {exc}") from exc


def _is_long(number: int) -> bool:
    return -(1 << 63) <= number < 1 << 63


_SHORT = {
    "ackOffset": "ao",
    "ackOffsetList": "aol",
    "brokerName": "bn",
    "consumerGroup": "c",
    "popTime": "pt",
    "queueId": "q",
    "startOffset": "so",
    "topic": "t",
}

_INVALID: Final = "the body is not a valid record of the revive topic"

RecordT = TypeVar("RecordT")
_encode = msgspec.json.encode


def _decode(body: bytes | memoryview, cls: type[RecordT]) -> RecordT:
    # Check the length before the expensive parsing.
    if len(body) > MAX_BODY_BYTES:
        raise BadRequestError(f"{_INVALID}: it has {len(body)} bytes")
    try:
        return msgspec.json.decode(body, type=cls, strict=False)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise BadRequestError(f"{_INVALID}: {exc}") from exc
