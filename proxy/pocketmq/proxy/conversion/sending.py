"""A message that an SDK sends: what it is refused for, and how it is stored (G-64, G-66)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.proxy.codes.names import has_control_character, is_blank
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.conversion.delivering import HIDDEN
from pocketmq.proxy.protos.enums import Code, Encoding, MessageType
from pocketmq.proxy.settings.limits import Limits


def sys_flag(message: Any) -> int:
    """The bits of a message that stand outside of its properties (G-66)."""
    system, flag = message.system_properties, 0
    # Only the flag, without a kind of compression: remoting consumers take that for zlib.
    if system.body_encoding == Encoding.GZIP:
        flag |= MessageSysFlag.COMPRESSED
    if system.message_type == MessageType.TRANSACTION:
        flag |= MessageSysFlag.TRANSACTION_PREPARED
    return flag


def stored(messages: Sequence[Any], *, peer: str, now_ms: int, limits: Limits) -> list[Message]:
    """Messages as brokers take them.

    Args:
        messages: Of one SendMessage; one at least.
        peer: The client's address, for those that do not name where they were born.
        now_ms: Epoch ms.
        limits: The proxy's.

    Raises:
        Refusal: The first fault, in the order in which RocketMQ's proxy looks.
    """
    topic = messages[0].topic
    made = []
    for message in messages:
        if message.topic != topic:
            raise Refusal(Code.MESSAGE_CORRUPTED, "topic in message is not same")
        _check_body(message.body, limits)
        properties = _properties(message, peer, now_ms, limits)
        made.append(Message(topic.name, message.body, properties=properties))
    return made


def _check_body(body: bytes, limits: Limits) -> None:
    if not body:
        raise Refusal(Code.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(body) > limits.max_message_size:
        raise Refusal(
            Code.MESSAGE_BODY_TOO_LARGE,
            f"message body cannot exceed the max {limits.max_message_size}",
        )


def _properties(message: Any, peer: str, now_ms: int, limits: Limits) -> dict[str, str]:
    system = message.system_properties
    properties = dict(message.user_properties)
    size = _check_user_properties(properties, limits)
    size += _put_words(properties, system)
    if size > limits.max_user_property_size:
        raise Refusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"the total size of user property is too large, max is {limits.max_user_property_size}",
        )
    if is_blank(system.message_id):
        raise Refusal(Code.ILLEGAL_MESSAGE_ID, "message id cannot be empty")
    # The SDK's own id: retries of one send have the same, and consumers see it as the message's id.
    properties[names.UNIQ_KEY] = system.message_id
    _put_transaction(properties, system, limits)
    if system.HasField("delivery_timestamp"):
        due_ms = _epoch_ms(system.delivery_timestamp)
        # Only the upper limit is checked (G-64): the broker judges a time in the past.
        if due_ms - now_ms > limits.max_delay_time_ms:
            raise Refusal(
                Code.ILLEGAL_DELIVERY_TIME,
                f"the max delay time of message is too large, max is {limits.max_delay_time_ms}",
            )
        properties[names.TIMER_DELIVER_MS] = str(due_ms)
    properties[names.RECONSUME_TIME] = str(system.delivery_attempt)
    properties[names.PRODUCER_GROUP] = message.topic.name  # the checker's group is the topic
    if system.message_group:
        _check_message_group(system.message_group, limits)
        properties[names.SHARDING_KEY] = system.message_group
    if system.HasField("priority"):
        properties[names.PRIORITY] = str(system.priority)
    if system.trace_context:
        properties[names.TRACE_CONTEXT] = system.trace_context
    born_host = peer if is_blank(system.born_host) else system.born_host
    if born_host:
        properties[names.BORN_HOST] = born_host
    # The header of the send takes its born time from this property.
    properties[names.BORN_TIMESTAMP] = str(_epoch_ms(system.born_timestamp))
    return properties


def _check_user_properties(properties: dict[str, str], limits: Limits) -> int:
    """Their bytes."""
    if len(properties) > limits.user_property_max_num:
        raise Refusal(
            Code.MESSAGE_PROPERTIES_TOO_LARGE,
            f"too many user properties, max is {limits.user_property_max_num}",
        )
    code, size = Code.ILLEGAL_MESSAGE_PROPERTY_KEY, 0
    for name, value in properties.items():
        # Such a name would be taken for RocketMQ's own, and change how the message is delivered.
        if name in HIDDEN:
            raise Refusal(code, f"property is used by system: {name}")
        # Brokers join properties with control characters, so one in a name would make two of it.
        if has_control_character(name):
            raise Refusal(code, "the key of property cannot contain control character")
        if has_control_character(value):
            raise Refusal(code, "the value of property cannot contain control character")
        size += len(name.encode()) + len(value.encode())
    return size


def _put_words(properties: dict[str, str], system: Any) -> int:
    """Put tag and keys; their bytes."""
    tag = system.tag
    if tag:
        _check_text(tag, Code.ILLEGAL_MESSAGE_TAG, "tag", also="|")
        properties[names.TAGS] = tag
    for key in system.keys:
        if key:
            _check_text(key, Code.ILLEGAL_MESSAGE_KEY, "key")
    if system.keys:
        properties[names.KEYS] = " ".join(system.keys)
    return len(tag.encode()) + sum(len(key.encode()) for key in system.keys)


def _check_text(text: str, code: Code, what: str, *, also: str = "") -> None:
    if is_blank(text):
        raise Refusal(code, f"{what} cannot be the char sequence of whitespace")
    if also and also in text:
        raise Refusal(code, f"{what} cannot contain '{also}'")
    if has_control_character(text):
        raise Refusal(code, f"{what} cannot contain control character")


def _check_message_group(group: str, limits: Limits) -> None:
    code = Code.ILLEGAL_MESSAGE_GROUP
    if is_blank(group):
        raise Refusal(code, "message group cannot be the char sequence of whitespace")
    # As in RocketMQ, a group as long as the limit is too long already.
    if len(group.encode()) >= limits.max_message_group_size:
        raise Refusal(code, f"message group exceed the max size {limits.max_message_group_size}")
    if has_control_character(group):
        raise Refusal(code, "message group cannot contain control character")


def _put_transaction(properties: dict[str, str], system: Any, limits: Limits) -> None:
    if system.message_type != MessageType.TRANSACTION:
        return
    properties[names.TRANSACTION_PREPARED] = "true"
    if system.HasField("orphaned_transaction_recovery_duration"):
        seconds = system.orphaned_transaction_recovery_duration.seconds
        if seconds > limits.max_transaction_recovery_s:
            raise Refusal(
                Code.BAD_REQUEST,
                "the max transaction recovery time of message is too large, max is "
                f"{limits.max_transaction_recovery_s}",
            )
        properties[names.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(seconds)


def _epoch_ms(time: Any) -> int:
    milliseconds: int = time.seconds * 1_000 + time.nanos // 1_000_000
    return milliseconds
