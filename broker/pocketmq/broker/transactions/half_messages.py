"""Half messages on the disk, and the messages made from them (X-1, X-2, X-4, X-10, X-36).

A producer sends a message with `TRAN_MSG`; it waits in RMQ_SYS_TRANS_HALF_TOPIC, with its real
topic as a property. END_TRANSACTION (37) names it by its two offsets.
"""

from __future__ import annotations

from enum import Enum, unique

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol import properties as names
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.message import MessageExt
from pocketmq.protocol.properties import encode_properties
from pocketmq.protocol.record import encode_record
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.subscription import tags_code
from pocketmq.protocol.validation import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC

_REAL_TOPIC, _REAL_QUEUE = names.REAL_TOPIC.encode(), names.REAL_QUEUE_ID.encode()

REMOVED: str = "d"
"""Tag of an op record."""


@unique
class Outcome(Enum):
    """A producer's decision on its half message; the numbers of END_TRANSACTION (37)."""

    UNKNOWN = MessageSysFlag.TRANSACTION_NONE
    COMMIT = MessageSysFlag.TRANSACTION_COMMIT
    ROLLBACK = MessageSysFlag.TRANSACTION_ROLLBACK


_OUTCOMES: dict[int, Outcome] = {outcome.value: outcome for outcome in Outcome}


def is_half(message: StoredMessage, properties: dict[str, str]) -> bool:
    """Whether a sent message is to wait for its transaction (X-10)."""
    return properties.get(names.TRANSACTION_PREPARED, "").lower() == "true" and not (
        message.reconsume_times > 0 and _number(properties.get(names.DELAY)) > 0
    )


def to_half(message: StoredMessage, properties: dict[str, str]) -> None:
    """Turn a message into its half message; changes both arguments."""
    if message.uniq_key:
        properties[names.TRANSACTION_ID] = message.uniq_key
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic, message.queue_id = HALF_TOPIC, 0
    message.sys_flag &= ~MessageSysFlag.TRANSACTION_MASK
    message.properties = encode_properties(properties).encode()


def committed(
    half: MessageExt, prepared_offset: int, *, names_real_topic: bool = True
) -> StoredMessage:
    """The message that consumers get.

    Args:
        half: which is committed.
        prepared_offset: its physical offset, as the request named it.
        names_real_topic: REAL_TOPIC and REAL_QID stay among its properties (X-1).

    Raises:
        RequestRefusedError: SYSTEM_ERROR (1): it names no topic, so it is no half message.
    """
    properties = half.properties
    topic = properties.get(names.REAL_TOPIC)
    if not topic or topic in (HALF_TOPIC, OP_HALF_TOPIC):
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR, "the record there is no half message: it names no topic"
        )
    queue = properties.get(names.REAL_QUEUE_ID)
    queue_id = max(0, _number(queue))
    stored = bytes(half.raw_properties)
    if not names_real_topic:
        last = f"{names.REAL_TOPIC}\x01{topic}\x02{names.REAL_QUEUE_ID}\x01{queue}\x02".encode()
        stored = stored.removesuffix(last)  # where `to_half` put them
        if _REAL_TOPIC in stored or _REAL_QUEUE in stored:
            own = (names.REAL_TOPIC, names.REAL_QUEUE_ID)
            properties = {name: text for name, text in properties.items() if name not in own}
            stored = encode_properties(properties).encode()
    message = _copy(half, topic, queue_id, properties, stored)
    message.sys_flag |= MessageSysFlag.TRANSACTION_COMMIT
    message.prepared_transaction_offset = prepared_offset
    message.wait_store_ok = properties.get(names.WAIT) != "false"
    return message


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
    return [int(part) for part in text.split(",") if part.isascii() and part.isdigit()]


def outcome_of(header: EndTransactionRequestHeader) -> Outcome:
    """The producer's decision.

    Raises:
        RequestRefusedError: SYSTEM_ERROR (1): the number has no meaning.
    """
    outcome = _OUTCOMES.get(header.commit_or_rollback)
    if outcome is None:
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            f"commitOrRollback field wrong: {header.commit_or_rollback} is none of 0, 8 and 12",
        )
    return outcome


def check_end(
    header: EndTransactionRequestHeader, half: MessageExt, now_ms: int, timeout_ms: int
) -> None:
    """Compare what the producer names with what lies there, in RocketMQ's order (X-20, X-21).

    Args:
        header: of END_TRANSACTION.
        half: the record at its physical offset.
        now_ms: the time.
        timeout_ms: `transactionTimeOut`.

    Raises:
        RequestRefusedError: ILLEGAL_OPERATION (604): the immunity time that the message asked for
            is over, and the producer was not asked; SYSTEM_ERROR (1): it is another message.
    """
    properties = half.properties
    immunity = properties.get(names.CHECK_IMMUNITY_TIME_IN_SECONDS)
    if immunity and not header.from_transaction_check:
        longest_ms = max(immunity_ms(immunity, timeout_ms), timeout_ms)
        if now_ms - half.born_timestamp_ms > longest_ms:
            raise RequestRefusedError(
                ResponseCode.ILLEGAL_OPERATION,
                f"the half message is older than its {longest_ms} ms; wait until you are asked",
            )
    if properties.get(names.PRODUCER_GROUP) != header.producer_group:
        raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if half.queue_offset != header.tran_state_table_offset:
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong"
        )
    if half.commit_log_offset != header.commit_log_offset:
        raise RequestRefusedError(ResponseCode.SYSTEM_ERROR, "The commit log offset wrong")


def immunity_ms(text: str, default_ms: int) -> int:
    """How long a half message asked not to be checked; -1 and no number mean the default."""
    try:
        seconds = int(text)
    except ValueError:
        return default_ms
    return default_ms if seconds == -1 else seconds * 1000


def _copy(
    half: MessageExt,
    topic: str,
    queue_id: int,
    properties: dict[str, str],
    stored: bytes | None = None,
) -> StoredMessage:
    """The half message elsewhere; `stored` are the properties encoded, if at hand."""
    return StoredMessage(
        topic=topic,
        queue_id=queue_id,
        body=bytes(half.raw_body),
        properties=encode_properties(properties).encode() if stored is None else stored,
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
    try:
        return int(text) if text else 0
    except ValueError:
        return 0
