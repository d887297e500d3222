"""Half messages on the disk, and the messages made from them (X-1, X-2, X-4, X-10, X-36).

A producer sends a message with `TRAN_MSG`; it waits in RMQ_SYS_TRANS_HALF_TOPIC, with its real
topic as a property. END_TRANSACTION (37) names it by its two offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, unique
from functools import lru_cache

import msgspec

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.java import java_integer
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import (
    KEY_MARK,
    KEYS_MARK,
    SharedProperties,
    add_to_stored,
    encode_again,
    encode_properties,
    read_alike,
)
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    NOT_ALLOWED_SEND,
    OP_HALF_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.stored.record import encode_record

_REAL_TOPIC, _REAL_QUEUE = names.REAL_TOPIC.encode(), names.REAL_QUEUE_ID.encode()

_KEYED = frozenset({names.UNIQ_KEY, names.KEYS, names.TRANSACTION_ID})
"""Properties in which half messages that are alike differ."""
_DELAYS = {name for name in names.RESERVED if name == names.DELAY or name.startswith("TIMER_")}

REMOVED: str = "d"
"""Tag of an op record."""


@unique
class Outcome(Enum):
    """A producer's decision on its half message; the numbers of END_TRANSACTION (37)."""

    UNKNOWN = MessageSysFlag.TRANSACTION_NONE
    COMMIT = MessageSysFlag.TRANSACTION_COMMIT
    ROLLBACK = MessageSysFlag.TRANSACTION_ROLLBACK


_OUTCOMES: dict[int, Outcome] = {outcome.value: outcome for outcome in Outcome}


def is_half(
    message: StoredMessage, properties: dict[str, str], *, delayed_retries: bool = False
) -> bool:
    """Whether a sent message is to wait for its transaction (X-10).

    Args:
        message: What was sent.
        properties: Of the message.
        delayed_retries: Whether a retry with a delay may be a half message, by profile.
    """
    # As in Java's Boolean.parseBoolean, case does not matter and any other text is false.
    return properties.get(names.TRANSACTION_PREPARED, "").lower() == "true" and (
        delayed_retries or message.reconsume_times <= 0 or _number(properties.get(names.DELAY)) <= 0
    )


def to_half(
    message: StoredMessage, properties: dict[str, str], *, names_transaction: bool = True
) -> None:
    """Turn a message into its half message; changes both arguments.

    Args:
        message: as it was sent.
        properties: its properties.
        names_transaction: its unique key is added as `__transactionId__`, too (X-10).
    """
    # 5.x also adds the unique key under this name, for the producer's listener.
    if names_transaction and message.uniq_key:
        properties[names.TRANSACTION_ID] = message.uniq_key
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic, message.queue_id = HALF_TOPIC, 0
    # Without a transaction flag, the half message is dispatched to its queue (B-100).
    message.sys_flag &= ~MessageSysFlag.TRANSACTION_MASK
    message.properties = encode_again(properties).encode()


def add_to_half(message: StoredMessage, *, names_transaction: bool = True) -> None:
    """`to_half` for a message whose properties are encoded and name nothing of what is added."""
    key, topic, queue_id = message.uniq_key, message.topic, message.queue_id
    added = {names.TRANSACTION_ID: key} if names_transaction and key else {}
    added |= {names.REAL_TOPIC: topic, names.REAL_QUEUE_ID: str(queue_id)}
    message.properties = add_to_stored(bytes(message.properties), added)
    message.topic, message.queue_id = HALF_TOPIC, 0


class HalfTraits(msgspec.Struct, frozen=True, gc=False):
    """What the half messages of one producer have in common, most of them."""

    topic: str
    """The real one; empty if the record names none."""
    queue: str | None
    """The real one's number, as it is written."""
    queue_id: int
    group: str | None
    tags_code: int
    wait_store_ok: bool
    immunity: str | None
    """CHECK_IMMUNITY_TIME_IN_SECONDS, as it is written."""
    is_delayed: bool
    """A delay was asked for, which counts from the commit (X-11)."""


class Half(msgspec.Struct, frozen=True, gc=False):
    """A stored half message, and what END_TRANSACTION asks of its properties."""

    record: MessageExt
    properties: bytes
    """As they are stored."""
    key: str
    """Its unique key; empty without one."""
    keys: str | None
    traits: HalfTraits


def read_half(record: MessageExt) -> Half:
    """Read a record of the half topic; its properties only as far as others did not have them."""
    stored = bytes(record.raw_properties)
    alike = read_alike(stored.decode("utf-8", "replace"))
    if alike is not None:
        traits = _shared_traits(alike.shared)
        if traits is not None:
            return Half(record, stored, alike.uniq_key, alike.keys or None, traits)
    properties = record.properties
    key, keys = properties.get(names.UNIQ_KEY, ""), properties.get(names.KEYS)
    return Half(record, stored, key, keys, _traits(properties))


@lru_cache(maxsize=1024)
def _shared_traits(shared: SharedProperties) -> HalfTraits | None:
    """None: each message has its own, or another key than that which was looked for."""
    properties = shared.properties
    # Half messages can share parsed traits only if nothing but their keys differs.
    if (
        properties.get(names.UNIQ_KEY) != KEY_MARK
        or properties.get(names.KEYS, KEYS_MARK) != KEYS_MARK
        or not _KEYED.issuperset(shared.marked)
    ):
        return None
    return _traits(properties)


def _traits(properties: Mapping[str, str]) -> HalfTraits:
    queue = properties.get(names.REAL_QUEUE_ID)
    return HalfTraits(
        topic=properties.get(names.REAL_TOPIC, ""),
        queue=queue,
        queue_id=max(0, _number(queue)),
        group=properties.get(names.PRODUCER_GROUP),
        tags_code=tags_code(properties.get(names.TAGS)),
        # WAIT of the half message holds for the committed one too.
        wait_store_ok=properties.get(names.WAIT) != "false",
        immunity=properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS),
        is_delayed=not _DELAYS.isdisjoint(properties),
    )


def committed(half: Half, *, names_real_topic: bool = True) -> StoredMessage:
    """The message that consumers get.

    Args:
        half: which is committed.
        names_real_topic: REAL_TOPIC and REAL_QID stay among its properties (X-1).

    Raises:
        RequestRefusedError: SYSTEM_ERROR (1): it names no topic that may be sent to, so it is no
            half message.
    """
    record, traits = half.record, half.traits
    topic = traits.topic
    # Only a client that wrote into the half topic by hand names such a topic.
    if not topic or topic in NOT_ALLOWED_SEND:
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            "the record is not a half message, because it names no topic to which clients may send",
        )
    return StoredMessage(
        topic,
        traits.queue_id,
        bytes(record.raw_body),
        half.properties if names_real_topic else _without_real_topic(half),
        record.flag,
        # The flag shows consumers and tools that the message was part of a transaction.
        record.sys_flag | MessageSysFlag.TRANSACTION_COMMIT,
        record.born_timestamp_ms,
        record.packed_born_host,
        record.packed_store_host,
        record.reconsume_times,
        record.commit_log_offset,
        traits.tags_code,
        0,
        half.key or None,
        half.keys,
        traits.wait_store_ok,
    )


def _without_real_topic(half: Half) -> bytes:
    """The properties as they are stored, without the two that every half message has."""
    traits = half.traits
    last = f"{names.REAL_TOPIC}\x01{traits.topic}\x02{names.REAL_QUEUE_ID}\x01{traits.queue}\x02"
    stored = half.properties.removesuffix(last.encode())  # where they stand in Java's order, mostly
    # They may stand elsewhere: then decode all properties and remove them.
    if _REAL_TOPIC in stored or _REAL_QUEUE in stored:
        own = (names.REAL_TOPIC, names.REAL_QUEUE_ID)
        left = {name: text for name, text in half.record.properties.items() if name not in own}
        return encode_again(left).encode()
    return stored


def renewed(half: MessageExt, changes: dict[str, str]) -> StoredMessage:
    """The same half message once more, at the end of its queue, with changed properties."""
    return _copy(half, HALF_TOPIC, half.queue_id, half.properties | changes)


def given_up(half: MessageExt) -> StoredMessage:
    """The half message as it lies in TRANS_CHECK_MAX_TIME_TOPIC, for people to look at."""
    return _copy(half, TRANS_CHECK_MAX_TIME_TOPIC, 0, half.properties)


def with_real_topic(half: MessageExt) -> bytes:
    """The record that a producer is asked about: under its own topic and queue (X-45)."""
    properties = half.properties
    return encode_record(
        topic=properties.get(names.REAL_TOPIC, "").encode(),
        queue_id=max(0, _number(properties.get(names.REAL_QUEUE_ID))),
        flag=half.flag,
        queue_offset=half.queue_offset,
        physical_offset=half.commit_log_offset,
        sys_flag=half.sys_flag,
        born_timestamp_ms=half.born_timestamp_ms,
        born_host=half.packed_born_host,
        store_timestamp_ms=half.store_timestamp_ms,
        store_host=half.packed_store_host,
        reconsume_times=half.reconsume_times,
        prepared_transaction_offset=half.prepared_transaction_offset,
        body=half.raw_body,
        properties=bytes(half.raw_properties),
    )


def op_record(body: str, queue_id: int, now_ms: int, host: bytes) -> StoredMessage:
    """An op record: these half messages are done (X-4)."""
    return StoredMessage(
        topic=OP_HALF_TOPIC,
        queue_id=queue_id,
        body=body.encode(),
        properties=encode_properties({names.WAIT: "true", names.TAGS: REMOVED}).encode(),
        flag=0,
        sys_flag=0,
        born_timestamp_ms=now_ms,
        born_host=host,
        store_host=host,
        tags_code=tags_code(REMOVED),
        wait_store_ok=False,
    )


def offsets_of(op: MessageExt) -> list[int]:
    """Queue offsets of the half messages that an op record names; none if it is no such record."""
    if op.tags != REMOVED:
        return []
    text = bytes(op.raw_body).decode("utf-8", "replace")
    parts = text.split(",")
    # The usual text is parsed in one go; only damaged text is checked part by part.
    if text.isascii() and text.replace(",", "").isdigit() and len(max(parts, key=len)) < 20:
        return list(map(int, filter(None, parts)))
    return [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) < 20]


def outcome_of(header: EndTransactionRequestHeader) -> Outcome:
    """The producer's decision.

    Raises:
        RequestRefusedError: SYSTEM_ERROR (1): the number has no meaning.
    """
    outcome = _OUTCOMES.get(header.commit_or_rollback)
    if outcome is None:
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            "commitOrRollback field wrong: it must be 0, 8 or 12, but is "
            f"{header.commit_or_rollback}",
        )
    return outcome


def check_end(
    header: EndTransactionRequestHeader,
    half: Half,
    now_ms: int,
    timeout_ms: int,
    *,
    ends_in_its_time: bool = True,
) -> None:
    """Compare what the producer names with what lies there, in RocketMQ's order (X-20, X-21).

    Args:
        header: of END_TRANSACTION.
        half: what lies at its physical offset.
        now_ms: the time.
        timeout_ms: `transactionTimeOut`.
        ends_in_its_time: whether the immunity time that a message asked for is its last, unless
            the producer was asked; 4.9 does not look (B-102).

    Raises:
        RequestRefusedError: ILLEGAL_OPERATION (604): that time is over, and the producer was not
            asked; SYSTEM_ERROR (1): it is another message.
    """
    record, immunity = half.record, half.traits.immunity
    # Only a producer that was not asked is refused: an answer to a check may be late (B-102).
    if ends_in_its_time and immunity and not header.from_transaction_check:
        longest_ms = max(immunity_ms(immunity, timeout_ms), timeout_ms)
        if now_ms - record.born_timestamp_ms > longest_ms:
            raise RequestRefusedError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the half message is older than {longest_ms} ms; wait until the broker checks "
                "the transaction, and answer that check",
            )
    # The offset alone could belong to another producer's message, so all three must match.
    if half.traits.group != header.producer_group:
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            "The producer group wrong; only the group that sent the half message can end its "
            "transaction",
        )
    if record.queue_offset != header.tran_state_table_offset:
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            "The transaction state table offset wrong; use the queue offset from the answer to "
            "the send",
        )
    if record.commit_log_offset != header.commit_log_offset:
        raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, "The commit log offset wrong")


def immunity_ms(text: str, default_ms: int) -> int:
    """How long a half message asked not to be checked; -1 and no number mean the default."""
    seconds = java_integer(text, 64)
    return default_ms if seconds is None or seconds == -1 else seconds * 1000


def _copy(half: MessageExt, topic: str, queue_id: int, properties: dict[str, str]) -> StoredMessage:
    """The half message elsewhere."""
    return StoredMessage(
        topic=topic,
        queue_id=queue_id,
        body=bytes(half.raw_body),
        properties=encode_again(properties).encode(),
        flag=half.flag,
        sys_flag=half.sys_flag,
        born_timestamp_ms=half.born_timestamp_ms,
        born_host=half.packed_born_host,
        store_host=half.packed_store_host,
        reconsume_times=half.reconsume_times,
        tags_code=tags_code(properties.get(names.TAGS)),
        uniq_key=properties.get(names.UNIQ_KEY),
        keys=properties.get(names.KEYS),
        wait_store_ok=False,
    )


def _number(text: str | None) -> int:
    return java_integer(text or "") or 0
