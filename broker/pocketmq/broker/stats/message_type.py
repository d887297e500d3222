"""What a sent message counts as in metrics: RocketMQ's label `message_type`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, unique
from typing import Final

from pocketmq.protocol.messages import properties as names

_START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
"""By which clients of a cloud's RocketMQ ask for a delay; no broker delivers later for it."""

_DELAYS: Final = (
    names.DELAY,
    names.TIMER_DELIVER_MS,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
    _START_DELIVER_TIME,
)


@unique
class MessageType(IntEnum):
    """Its name in lower case is the label's value; its number is a place in lists of counters."""

    NORMAL = 0
    FIFO = 1
    DELAY = 2
    TRANSACTION = 3


def type_of(properties: Mapping[str, str]) -> MessageType:
    """The type by a send's properties, as they came. The first that fits, as in RocketMQ.

    A half message is a transaction, one with a sharding key is in order, whatever else it asks for.
    """
    if properties.get(names.TRANSACTION_PREPARED, "").lower() == "true":
        return MessageType.TRANSACTION
    if names.SHARDING_KEY in properties:
        return MessageType.FIFO
    if any(name in properties for name in _DELAYS):
        return MessageType.DELAY
    return MessageType.NORMAL
