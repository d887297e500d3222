"""Delayed messages: 18 levels, one queue per level, delivered when due (B-90 to B-95).

A delayed message is stored in SCHEDULE_TOPIC_XXXX, queue level - 1, with its real topic and queue
as properties. All messages of a queue wait equally long, so the first one is always the next one
due: one deadline per level is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.storing.rewrites import Rewrite
from pocketmq.broker.tables.unsaved import Unsaved
from pocketmq.protocol.bodies.offsets import DelayOffsetTable
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.hosts import pack_host, parse_host_text
from pocketmq.protocol.java import java_integer
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import encode_again
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import NOT_ALLOWED_SEND, SCHEDULE_TOPIC


def level_of(text: str | None) -> int:
    """The DELAY property as a number; 0 when it is missing or no int of Java's."""
    return java_integer(text or "") or 0


def to_schedule_topic(
    message: StoredMessage, properties: dict[str, str], level: int, max_level: int
) -> StoredMessage:
    """`message` as it waits for its time (B-91); changes and returns it.

    Args:
        message: with its real topic and queue.
        properties: the message's properties, decoded; REAL_TOPIC and REAL_QID are added.
        level: above 0; a level above `max_level` counts as `max_level`.
        max_level: number of levels there are.
    """
    if level > max_level:  # any other is kept as it was written: `+3` stays `+3`
        level = max_level
        properties[names.DELAY] = str(level)
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic = SCHEDULE_TOPIC
    message.queue_id = level - 1
    message.delay_level = level
    message.properties = encode_again(properties).encode()
    return message


def delay_rewrite(max_level: int) -> Rewrite:
    """Sends messages with a DELAY property to SCHEDULE_TOPIC_XXXX (B-91)."""

    def rewrite(message: StoredMessage, properties: dict[str, str], _now_ms: int) -> bool:
        level = level_of(properties.get(names.DELAY))
        if level <= 0:
            return False
        to_schedule_topic(message, properties, level, max_level)
        return True

    return rewrite


def from_schedule_topic(record: MessageExt) -> StoredMessage | None:
    """The message as it is delivered, or None for one that must not be (B-92).

    Its properties stay as they were stored, DELAY among them (X-3): put it into the store as it is,
    for a rewrite would delay it again. The store host stays that of the first put. One that names
    no topic is dropped, and so is one that names a topic which nobody may send to: half messages
    never wait here.
    """
    properties = record.properties
    topic = properties.get(names.REAL_TOPIC)
    if not topic or topic in NOT_ALLOWED_SEND:
        return None
    tags = properties.get(names.TAGS)
    return StoredMessage(
        topic=topic,
        queue_id=max(0, level_of(properties.get(names.REAL_QUEUE_ID))),
        body=record.raw_body,
        properties=encode_again(properties).encode(),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=pack_host(*parse_host_text(record.born_host)),
        store_host=pack_host(*parse_host_text(record.store_host)),
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        tags_code=tags_code(tags),
        uniq_key=properties.get(names.UNIQ_KEY),
        keys=properties.get(names.KEYS),
        wait_store_ok=False,
    )


class DelayPlanner:
    """How far each level is delivered, and when its next message is due.

    Args:
        delays_ms: by level; index 0 is no level.
    """

    def __init__(self, delays_ms: Sequence[int]) -> None:
        self.delays_ms = tuple(delays_ms)
        self.max_level = len(delays_ms) - 1
        self.data_version = DataVersion()
        self.unsaved = Unsaved()
        """A level has moved since the table was last saved."""
        self._offsets: dict[int, int] = {}
        self._safe: dict[int, int] = {}
        self._common: dict[int, int] = {}
        self._next_at_ms: dict[int, int] = {}

    @property
    def levels(self) -> range:
        """All levels: 1 to 18."""
        return range(1, self.max_level + 1)

    def offset(self, level: int) -> int:
        """The next offset to deliver."""
        return self._offsets.get(level, 0)

    def moved(self, level: int, offset: int) -> None:
        """Everything below `offset` is delivered; its copies may not be on the disk yet."""
        if self._offsets.get(level, 0) == offset:
            return
        self._offsets[level] = offset
        self.unsaved.note()

    def delivered(self) -> dict[int, int]:
        """Where each level stands. Sync the log, then pass this to `made_safe`."""
        return dict(self._offsets)

    def made_safe(self, delivered: Mapping[int, int]) -> None:
        """All copies of what was `delivered` are on the disk.

        Only these offsets are stored: a message that waited for two hours must not be lost because
        its delivery was noted on the disk before its copy was (B-94).
        """
        self._safe = dict(delivered)

    def noted(self) -> dict[int, int]:
        """What is stored. When replicas have the log as it is now, pass this to `made_common`."""
        return dict(self._safe)

    def made_common(self, noted: Mapping[int, int]) -> None:
        """All replicas that count have the copies of what was delivered up to here.

        Only these offsets are told to slaves, which may be elected.
        """
        self._common = dict(noted)

    def due_at_ms(self, level: int, stored_at_ms: int, now_ms: int) -> int:
        """When a message is due.

        A time further away than the level's whole delay comes from a clock that was set back since;
        such a message is due now (B-92).
        """
        delay_ms = self.delays_ms[level]
        due_at_ms = stored_at_ms + delay_ms
        return now_ms if due_at_ms > now_ms + delay_ms else due_at_ms

    # -- deadlines ----------------------------------------------------------------------------

    def arrived(self, level: int, due_at_ms: int) -> bool:
        """A message was stored in an idle or busy level; True when the level's deadline is new."""
        if level in self._next_at_ms:
            return False
        self._next_at_ms[level] = due_at_ms
        return True

    def look_at(self, level: int, at_ms: int | None) -> None:
        """When to look at the level next; None: when something arrives."""
        if at_ms is None:
            self._next_at_ms.pop(level, None)
        else:
            self._next_at_ms[level] = at_ms

    def due(self, now_ms: int) -> list[int]:
        """Levels to look at now.

        A moment further away than the level's whole delay was noted before the clock was set back:
        what waits there may be due by B-92.
        """
        delays_ms = self.delays_ms
        return [
            level
            for level, at_ms in self._next_at_ms.items()
            if at_ms <= now_ms or at_ms > now_ms + delays_ms[level]
        ]

    def next_deadline_ms(self) -> int | None:
        """When the first level is to be looked at; None when all are idle."""
        return min(self._next_at_ms.values(), default=None)

    # -- storing ------------------------------------------------------------------------------

    def load(self, stored: DelayOffsetTable) -> None:
        """Take over what `delayOffset.json` holds; `clamp` comes next."""
        self.data_version = stored.data_version
        self._offsets = {level: stored.offset_table.get(level, 0) for level in self.levels}
        self._safe = dict(self._offsets)
        self._common = dict(self._safe)

    def follow(self, master: DelayOffsetTable) -> None:
        """Take over how far the master has delivered (B-120); this broker delivers nothing."""
        if master.offset_table != self.wrapper().offset_table:
            self.load(master)
            self.unsaved.note()

    def take_back(self, slave: DelayOffsetTable) -> None:
        """Take over what a slave delivered that acted as master; offsets only grow (Z-9)."""
        for level in self.levels:
            self._offsets[level] = max(self.offset(level), slave.offset_table.get(level, 0))
        self._safe = dict(self._offsets)
        self._common = dict(self._safe)
        self.unsaved.note()

    def clamp(self, bounds: Mapping[int, tuple[int, int]]) -> None:
        """Bring each level's offset within the (min, max) offset of its queue (B-94)."""
        for level in self.levels:
            low, high = bounds.get(level, (0, 0))
            self._offsets[level] = min(max(self.offset(level), low), high)
        self._safe = dict(self._offsets)
        self._common = dict(self._safe)

    def wrapper(self) -> DelayOffsetTable:
        """The table as it is stored."""
        return DelayOffsetTable(data_version=self.data_version, offset_table=dict(self._safe))

    def common(self) -> DelayOffsetTable:
        """The table as it is shown: GET_ALL_DELAY_OFFSET (45)."""
        return DelayOffsetTable(data_version=self.data_version, offset_table=dict(self._common))
