"""Which queue a message goes to when its key decides (P-51).

A selector gets all writable queues of the topic in the order of P-12 and the caller's key. There is
no broker avoidance and no retry on another queue: the same key must meet the same queue.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pocketmq.protocol.java import bucket, java_hash, to_int32
from pocketmq.protocol.messages.message import Message, MessageQueue

QueueSelector: TypeAlias = Callable[[Sequence[MessageQueue], Message, object], MessageQueue | None]
"""`selector(queues, message, key)`; None means that it cannot choose."""


def select_by_hash(
    queues: Sequence[MessageQueue], _message: Message, key: object
) -> MessageQueue | None:
    """Java's `hashCode(key) % n`, absolute value taken after the remainder."""
    return queues[bucket(java_hash_code(key), len(queues))]


def select_by_random(
    queues: Sequence[MessageQueue], _message: Message, _key: object
) -> MessageQueue | None:
    """Any queue."""
    return random.choice(queues)


def select_by_machine_room(
    _queues: Sequence[MessageQueue], _message: Message, _key: object
) -> MessageQueue | None:
    """RocketMQ's own is a stub that never chooses; sending with it always fails."""
    return None


def java_hash_code(value: object) -> int:
    """`hashCode()` of the Java value that corresponds: String, Boolean, Integer, Long, byte[].

    A byte string counts by its content, as `Arrays.hashCode` does; anything else by its `str`.
    """
    if isinstance(value, str):
        return java_hash(value)
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        if -(2**31) <= value < 2**31:
            return value
        low = value & 0xFFFFFFFFFFFFFFFF
        return to_int32((low ^ low >> 32) & 0xFFFFFFFF)
    if isinstance(value, (bytes, bytearray, memoryview)):
        result = 1
        for byte in bytes(value):
            result = (31 * result + (byte - 256 if byte > 127 else byte)) & 0xFFFFFFFF
        return to_int32(result)
    return java_hash(str(value))
