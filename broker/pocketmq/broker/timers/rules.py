"""When a timer message is due, where it waits, what its delivery looks like (T-105 to T-136)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.timers.layout import BLANK_SLOTS, SLOTS, LogRecord
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.java import java_hash, java_integer
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import (
    MAX_PROPERTIES_BYTES,
    add_to_stored,
    encode_again,
    stored_name,
    stored_value,
)
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import NOT_ALLOWED_SEND, TIMER_TOPIC

NEVER_WAITED_MS = 2**63 - 1
"""TIMER_ENQUEUE_MS of a message that was due before it came into the wheel (T-101)."""

SECOND_MS = 1000

ROOM_BYTES = 128
"""Bytes kept free for the properties that delivery adds, so that it cannot fail."""


@dataclass(frozen=True, slots=True)
class TimerRules:
    """The options that decide about time; all in milliseconds.

    Args:
        precision_ms: width of a slot: 100, 200, 500 or 1000.
        roll_window_slots: a message further ahead is put into the wheel once more on the way.
        max_delay: in ms, now; a time further ahead is refused.
        enabled: False refuses all.
    """

    precision_ms: int = 1000
    roll_window_slots: int = 172_800
    max_delay: Callable[[], int] = lambda: 259_200_000
    enabled: bool = True

    @classmethod
    def of(
        cls,
        precision_ms: int,
        roll_window_slots: int,
        max_delay: Callable[[], int],
        *,
        enabled: bool,
    ) -> TimerRules:
        """From the options as a user writes them, mapped as RocketMQ maps them (T-101)."""
        # A slot must be free before its time comes round again, so 60 slots stay unused.
        most = SLOTS // 2 - BLANK_SLOTS
        window = roll_window_slots if 2 <= roll_window_slots <= most else most
        return cls(precision_of(precision_ms), window, max_delay, enabled)

    def floor(self, time_ms: int) -> int:
        """The slot that a time falls into."""
        return time_ms - time_ms % self.precision_ms

    def out_ms(self, properties: Mapping[str, str], now_ms: int) -> int | None:
        """TIMER_OUT_MS of a message that is to be stored; None when it does not wait (T-105).

        A time on a slot's edge belongs to the slot before: a slot is delivered when it is over.

        Raises:
            RequestRefusedError: the time is no number, too far ahead, or past for a cancel.
        """
        # It already waits or has waited in the wheel: do not rewrite it twice.
        if names.TIMER_OUT_MS in properties:
            return None
        due_ms = self._due_ms(properties, now_ms)
        if due_ms is None:
            return None
        cancels = names.TIMER_DEL_UNIQKEY in properties
        return self.out_ms_of(due_ms, now_ms, cancels=cancels)

    def out_ms_of(self, due_ms: int, now_ms: int, *, cancels: bool = False) -> int | None:
        """`out_ms` of a message that is due at a time.

        Raises:
            RequestRefusedError: that is too far ahead, or past for a cancel.
        """
        # Refuse it: delivery at once would not be what the client asked for (T-105).
        if not self.enabled:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false",
            )
        # A cancel in the past would be read after its message is gone (T-135).
        if due_ms - now_ms > self.max_delay() or (due_ms <= now_ms and cancels):
            raise self.illegal()
        if due_ms <= now_ms:
            return None
        # Round down to a slot, which is delivered when it is over: at most one slot late, never
        # early.
        out_ms = self.floor(due_ms)
        return out_ms - self.precision_ms if out_ms == due_ms else out_ms

    def illegal(self, reason: str = "") -> RequestRefusedError:
        """The answer to a time that timers refuse: MESSAGE_ILLEGAL (13)."""
        return RequestRefusedError(
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{self.max_delay()}ms; or if set del msg, the delay time should be bigger than the "
            f"current time{reason}",
        )

    def _due_ms(self, properties: Mapping[str, str], now_ms: int) -> int | None:
        text = ""
        try:
            # RocketMQ's order: a delay in seconds, then one in milliseconds, then a time (T-105).
            if text := properties.get(names.TIMER_DELAY_SEC, ""):
                return now_ms + _number(text) * SECOND_MS
            if text := properties.get(names.TIMER_DELAY_MS, ""):
                return now_ms + _number(text)
            if text := properties.get(names.TIMER_DELIVER_MS, ""):
                return _number(text)
        except ValueError:
            raise self.illegal(f"; {text[:40]!r} is no number") from None
        return None

    def slot_of(self, out_ms: int, write_ms: int) -> tuple[int, bool]:
        """Slot time of a message, and whether it rolls there (T-122).

        Args:
            out_ms: its TIMER_OUT_MS.
            write_ms: the slot of now.
        """
        window_ms = self.roll_window_slots * self.precision_ms
        ahead_ms = out_ms - write_ms
        if ahead_ms < window_ms:
            return out_ms, False
        # Only a little beyond the window: roll at half of it, or the last wait would be very short.
        if ahead_ms - window_ms < self.roll_window_slots // 3 * self.precision_ms:
            return write_ms + self.roll_window_slots // 2 * self.precision_ms, True
        return write_ms + window_ms, True

    def is_of(self, record: MessageExt, entry: LogRecord) -> bool:
        """Whether the timer log's record was made of this message.

        Another one may lie there after a slave's log was cut.
        """
        text = _stored(record)
        if (
            # Size and topic alone are not enough: another message may have both.
            record.topic != TIMER_TOPIC
            or record.store_size != entry.size
            or topic_hash(stored_value(text, _REAL_TOPIC) or "") != entry.topic_hash
        ):
            return False
        out_ms = java_integer(stored_value(text, _OUT_MS) or "", 64)
        # A message that rolls waits in a slot before its due time.
        return entry.is_roll or (out_ms is not None and self.floor(out_ms) == entry.slot_ms)

    def delivered_at_ms(self, slot_ms: int) -> int:
        """When a slot is delivered: when it is over (T-125)."""
        return slot_ms + self.precision_ms


def precision_of(wanted_ms: int) -> int:
    """The width of slots that RocketMQ makes of a wanted one (T-101)."""
    for limit, precision in ((200, 100), (500, 200), (1000, 500)):
        if wanted_ms < limit:
            return precision
    return 1000


def _number(text: str) -> int:
    """A Java long.

    Raises:
        ValueError: it is none.
    """
    # Java's Long.parseLong refuses spaces and underscores; Python's int does not.
    if not text.isascii() or len(text) > 20 or "_" in text or text != text.strip():
        raise ValueError(text)
    number = int(text)
    if not -(2**63) <= number < 2**63:
        raise ValueError(text)
    return number


def to_timer_topic(message: StoredMessage, properties: dict[str, str], out_ms: int) -> None:
    """Change a message so that it waits for its time (T-105).

    Args:
        message: with its real topic and queue.
        properties: its properties, decoded; get TIMER_OUT_MS, REAL_TOPIC and REAL_QID.
        out_ms: from `TimerRules.out_ms`.
    """
    properties[names.TIMER_OUT_MS] = str(out_ms)
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic = TIMER_TOPIC
    message.queue_id = 0
    message.properties = encode_again(properties).encode()


def check_room(stored: bytes) -> None:
    """Check that a timer message's properties leave room for those that its delivery adds.

    Raises:
        RequestRefusedError: MESSAGE_ILLEGAL (13).
    """
    most = MAX_PROPERTIES_BYTES - ROOM_BYTES
    if len(stored) > most:
        raise RequestRefusedError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the properties of a timer message may have at most {most} bytes, because its "
            "delivery adds more properties",
        )


def delete_key(topic: str, uniq_key: str, *, names_topic: bool = True) -> str:
    """TIMER_DEL_UNIQKEY of a cancel, as RocketMQ 5.3.2 and 5.3.3 write it, or 5.4 (T-136)."""
    return f"{topic}+{uniq_key}" if names_topic else uniq_key


def is_deleted(record: MessageExt, deleted: set[str]) -> bool:
    """Whether a cancel in the slot names this message, in any release's form (T-136)."""
    if not deleted:
        return False
    key = record.properties.get(names.UNIQ_KEY)
    if key is None:
        return False
    topic = record.properties.get(names.REAL_TOPIC, "")
    # Releases name the message by its key alone or by topic and key.
    return key in deleted or delete_key(topic, key) in deleted


def delivery(record: MessageExt, enqueued_ms: int, now_ms: int) -> StoredMessage | None:
    """The message as it is delivered; None when it does not say where to (T-127).

    Nor does one that names a topic which nobody may send to, or the wheel topic itself: only a
    client that wrote the message into the wheel topic by hand does.

    The properties stay, the timer's own among them: a revived pop reads TIMER_DELIVER_MS again.

    Args:
        record: as it waited.
        enqueued_ms: when it was logged.
        now_ms: the time.
    """
    text = _stored(record)
    topic = stored_value(text, _REAL_TOPIC)
    if not topic or topic == TIMER_TOPIC or topic in NOT_ALLOWED_SEND:
        return None
    queue_id = java_integer(stored_value(text, _REAL_QUEUE_ID) or "")
    if queue_id is None or queue_id < 0:
        return None
    added = {names.TIMER_ENQUEUE_MS: str(enqueued_ms), names.TIMER_DEQUEUE_MS: str(now_ms)}
    return _copy(record, topic, queue_id, text, add_to_stored(text[1:], added))


def rolled(record: MessageExt, enqueued_ms: int, now_ms: int) -> StoredMessage:
    """The message as it is put into the wheel topic once more (T-122).

    Args:
        record: as it waited.
        enqueued_ms: when it was logged.
        now_ms: the time.
    """
    text = _stored(record)
    times = java_integer(stored_value(text, _ROLL_TIMES) or "") or 0
    added = {
        names.TIMER_ENQUEUE_MS: str(enqueued_ms),
        names.TIMER_ROLL_TIMES: str(max(0, times) + 1),
        names.TIMER_DEQUEUE_MS: str(now_ms),
    }
    return _copy(record, TIMER_TOPIC, 0, text, add_to_stored(text[1:], added))


def names_cancel(record: MessageExt) -> bool:
    """Whether the message takes another one back (T-136)."""
    return stored_value(_stored(record), _CANCEL) is not None


def _stored(record: MessageExt) -> bytes:
    """Its properties as `stored_value` wants them."""
    return b"\x02" + record.raw_properties


def _copy(
    record: MessageExt, topic: str, queue_id: int, text: bytes, properties: bytes
) -> StoredMessage:
    return StoredMessage(
        topic=topic,
        queue_id=queue_id,
        body=record.raw_body,
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=record.packed_born_host,
        store_host=record.packed_store_host,
        reconsume_times=record.reconsume_times,
        prepared_transaction_offset=record.prepared_transaction_offset,
        tags_code=tags_code(stored_value(text, _TAGS)),
        uniq_key=stored_value(text, _UNIQ_KEY),
        keys=stored_value(text, _KEYS),
        wait_store_ok=False,
    )


topic_hash = lru_cache(maxsize=1024)(java_hash)
"""Java's hash of a topic's name, as the timer log has it."""

_TAGS, _UNIQ_KEY, _KEYS, _REAL_TOPIC, _REAL_QUEUE_ID, _CANCEL, _ROLL_TIMES, _OUT_MS = map(
    stored_name,
    (
        *(names.TAGS, names.UNIQ_KEY, names.KEYS, names.REAL_TOPIC, names.REAL_QUEUE_ID),
        *(names.TIMER_DEL_UNIQKEY, names.TIMER_ROLL_TIMES, names.TIMER_OUT_MS),
    ),
)
