"""What kinds of messages a topic takes (G-58, G-67)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pocketmq.protocol.messages import properties as names
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.protos.enums import Code, MessageType

ATTRIBUTE: Final = "message.type"
MIXED: Final = "MIXED"
UNSPECIFIED: Final = "UNSPECIFIED"
"""Of a topic whose configuration no broker knows."""

_OF_MIXED: Final = (
    MessageType.NORMAL,
    MessageType.FIFO,
    MessageType.DELAY,
    MessageType.TRANSACTION,
)
_DELAYS: Final = (
    names.DELAY,
    names.TIMER_DELIVER_MS,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
)


def type_of_topic(attributes: Mapping[str, str]) -> str:
    """The declared type of a topic that has these attributes."""
    # Topics of old brokers declare nothing, and RocketMQ takes those for NORMAL.
    return attributes.get(ATTRIBUTE, MessageType.NORMAL.name)


def accepted(topic_type: str) -> tuple[MessageType, ...]:
    """What a queue of such a topic says that it takes."""
    if topic_type == MIXED:
        return _OF_MIXED
    known = MessageType.__members__.get(topic_type)
    return (MessageType.MESSAGE_TYPE_UNSPECIFIED if known is None else known,)


def type_of_message(properties: Mapping[str, str]) -> str:
    """What a message is, by its properties; which of them come first is RocketMQ's order."""
    if properties.get(names.TRANSACTION_PREPARED) == "true":
        return MessageType.TRANSACTION.name
    if any(name in properties for name in _DELAYS):
        return MessageType.DELAY.name
    if names.SHARDING_KEY in properties:
        return MessageType.FIFO.name
    if names.PRIORITY in properties:
        return MessageType.PRIORITY.name
    return MessageType.NORMAL.name


def check_type(topic_type: str, message_type: str) -> None:
    """Pass a message that its topic takes.

    Raises:
        Refusal: MESSAGE_PROPERTY_CONFLICT_WITH_TYPE.
    """
    # A topic of unspecified type is refused, too: unknown does not mean that it takes any.
    if message_type != topic_type and topic_type != MIXED:
        raise Refusal(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            "TopicMessageType validate failed, the expected type is "
            f"{topic_type}, but actual type is {message_type}",
        )
