"""Received messages, several at once: a call for each would cost more than the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from re import Pattern

from pocketmq.protocol.messages.message import MessageExt


def any_stores(messages: Iterable[MessageExt], pattern: Pattern[bytes]) -> bool:
    """Whether `MessageExt.stores` is true of one of them."""
    search = pattern.search
    for message in messages:
        start, end = message._properties_at, message._at + message.store_size
        if search(message._buffer, start, end) is not None:
            return True
    return False


def note_on_each(messages: Iterable[MessageExt], values: dict[str, object]) -> None:
    """`MessageExt.note_all` of each; they keep this one mapping."""
    for message in messages:
        # The usual case, inlined for speed.
        if message._properties is None and message._notes is None:
            message._notes = values
        else:
            message.note_all(values)


def noted_alike_until(messages: Sequence[MessageExt], at: int, name: str) -> int:
    """Behind the messages that have the topic, and this very note, of the one at `at`.

    That one alone when it has none: its properties may have been read, and changed.
    """
    first = messages[at]
    topic, notes, noted = first.topic, first._notes, first.noted(name)
    at, count = at + 1, len(messages)
    while noted is not None and at < count:
        message = messages[at]
        known = message._notes
        # An application that read the properties may have changed them, so the notes do not count.
        if (
            message._properties is not None
            or (known is not notes and (known is None or known.get(name) is not noted))
            or message.topic != topic
        ):
            break
        at += 1
    return at
