"""A message as a JSON object: what `store cat`, `message export` and `message import` share.

The body stands in `body` as text, or in `bodyBase64` when it is no UTF-8.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import Message, MessageExt
from pocketmq.runtime.errors import PocketMQError

NOT_SENT_AGAIN: Final = frozenset(
    {
        names.DELAY,
        names.TIMER_DELAY_SEC,
        names.TIMER_DELAY_MS,
        names.TIMER_DELIVER_MS,
        names.TIMER_OUT_MS,
        names.TIMER_ENQUEUE_MS,
        names.TIMER_DEQUEUE_MS,
        names.TIMER_ROLL_TIMES,
        names.TIMER_DEL_UNIQKEY,
        names.TIMER_DELAY_LEVEL,
        names.REAL_TOPIC,
        names.REAL_QUEUE_ID,
        names.RETRY_TOPIC,
        names.RECONSUME_TIME,
        names.MAX_RECONSUME_TIMES,
        names.TRANSACTION_PREPARED,
        names.TRANSACTION_CHECK_TIMES,
        names.TRANSACTION_PREPARED_QUEUE_OFFSET,
        names.CHECK_IMMUNITY_TIME_IN_SECONDS,
        names.POP_CK,
        names.POP_CK_OFFSET,
        names.FIRST_POP_TIME,
        names.ORIGIN_GROUP,
        names.MIN_OFFSET,
        names.MAX_OFFSET,
        names.CRC32,
        names.INNER_MULTI_DISPATCH,
        names.INNER_MULTI_QUEUE_OFFSET,
        names.INNER_NUM,
        names.INNER_BASE,
    }
)
"""Properties that tell a broker to delay, hold or retry: of the first way through it, not of the
message. A message that is sent again goes without them."""


def as_json(message: MessageExt, *, base64_body: bool = False) -> dict[str, Any]:
    """A message as JSON shows it.

    Args:
        message: As it is stored.
        base64_body: Write every body in base64, also one that is text.
    """
    told: dict[str, Any] = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.commit_log_offset,
        "storeSize": message.store_size,
        "storeTimestamp": message.store_timestamp_ms,
        "bornTimestamp": message.born_timestamp_ms,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "sysFlag": message.sys_flag,
        "flag": message.flag,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "msgId": message.msg_id,
        "properties": message.properties,
    }
    if message.broker_name:
        told["brokerName"] = message.broker_name
        told["offsetMsgId"] = message.offset_msg_id
    # A body that cannot be decompressed is shown as it is stored.
    try:
        body = message.body
    except PocketMQError as exc:
        return {**told, "bodyError": str(exc), "rawBodyBase64": _base64(bytes(message.raw_body))}
    # Prefer text, because people read this; base64 is for bodies that are not UTF-8.
    if not base64_body:
        try:
            return {**told, "body": body.decode()}
        except UnicodeDecodeError:
            pass
    return {**told, "bodyBase64": _base64(body)}


def line_of_message(line: str | bytes) -> dict[str, Any]:
    """The object of one line of JSON.

    Raises:
        IllegalMessageError: it is no JSON object.
    """
    try:
        told = json.loads(line)
    except ValueError as exc:
        raise IllegalMessageError(f"it is no JSON: {exc}") from None
    if not isinstance(told, dict):
        raise IllegalMessageError("it is no JSON object")
    return told


def from_json(told: Mapping[str, Any], *, topic: str | None = None) -> Message:
    """A message to send, from what `as_json` wrote: body, flag and properties.

    `topic` and `body` or `bodyBase64` are needed; whatever else is missing has its default. The
    broker gives it a new place and a new store time. `NOT_SENT_AGAIN` is left out.

    Args:
        told: The object.
        topic: Where to, instead of its own topic.

    Raises:
        IllegalMessageError: a field is missing or of another type.
    """
    where = told.get("topic") if topic is None else topic
    if not isinstance(where, str):
        raise IllegalMessageError('it has no "topic"')
    properties = told.get("properties", {})
    # Refuse lists and numbers: they would be sent as their text.
    if not isinstance(properties, dict) or not all(isinstance(v, str) for v in properties.values()):
        raise IllegalMessageError('"properties" is no object with texts')
    flag = told.get("flag", 0)
    if not isinstance(flag, int):
        raise IllegalMessageError('"flag" is no number')
    return Message(where, _body_of(told), flag=flag, properties=sent_again(properties))


def sent_again(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties for a second send: without `NOT_SENT_AGAIN`."""
    return {name: text for name, text in properties.items() if name not in NOT_SENT_AGAIN}


def _body_of(told: Mapping[str, Any]) -> bytes:
    text, packed = told.get("body"), told.get("bodyBase64")
    if isinstance(text, str):
        return text.encode()
    if not isinstance(packed, str):
        raise IllegalMessageError('it has neither "body" nor "bodyBase64"')
    try:
        return base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise IllegalMessageError(f'"bodyBase64" is no base64: {exc}') from None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
