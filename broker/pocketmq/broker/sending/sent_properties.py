"""What the broker needs of a sent message's properties, without decoding them all each time.

Two properties differ from message to message: UNIQ_KEY and KEYS. They are cut out of the text; what
is left comes again and again ("WAIT true, TAGS TagA"), so it is read once and remembered.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec

from pocketmq.broker.sending.stamp import traced
from pocketmq.broker.stats.message_type import MessageType, type_of
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import (
    READ_PLACES,
    decode_properties,
    java_order,
    java_place,
)
from pocketmq.protocol.messages.subscription import tags_code

TIMERS = frozenset({names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS})
"""Properties of a delay in milliseconds (B-96)."""

_SPECIAL = TIMERS | {
    names.DELAY,
    names.TRANSACTION_PREPARED,
    names.POP_CK,
    names.PRIORITY,
    names.CLUSTER,
    names.MSG_REGION,
    names.TRACE_SWITCH,
    # The property occurs twice: the full decoding decides which one counts.
    names.UNIQ_KEY,
    names.KEYS,
}
_HALF = frozenset({names.TRANSACTION_PREPARED})
_ADDED_TO_HALF = frozenset({names.TRANSACTION_ID, names.REAL_TOPIC, names.REAL_QUEUE_ID})
"""What the broker adds to a half message; one that has it already is decoded in full (X-10)."""

_KEY_PLACE, _KEYS_PLACE = java_place(names.UNIQ_KEY), java_place(names.KEYS)
_OF_KEYS = frozenset({_KEY_PLACE, _KEYS_PLACE})
"""A name of the same place would stand before or behind them as it was sent."""
_MOST_PARTS = READ_PLACES * 3 // 4 - 3 - len(traced(region_is_stored=True))
"""With more names than these, UNIQ_KEY, CLUSTER and KEYS the map has more places."""

_VARYING = (f"{names.UNIQ_KEY}\x01", f"{names.KEYS}\x01")
"""How the properties begin that differ from message to message."""

MAX_REMEMBERED = 256
"""Longer texts are read each time."""


class Traits(msgspec.Struct, frozen=True, gc=False):
    """What all messages share whose properties differ in UNIQ_KEY and KEYS only."""

    is_plain: bool
    """No property needs more than storing the message. False also when that is not certain."""
    is_half: bool
    """The message is half of a transaction, and no property needs more than that (X-10)."""
    tags_code: int
    """Java's hash of the tag, 0 without one (S-31)."""
    wait_store_ok: bool
    """Whether the sender waits until the message is flushed, where the flush mode has that."""
    message_type: MessageType = MessageType.NORMAL
    """What metrics count it as."""
    before_key: str = ""
    """The other properties in their order (`java_order`), by profile with MSG_REGION and TRACE_ON:
    what stands before UNIQ_KEY, which CLUSTER follows,"""
    before_keys: str = ""
    """between CLUSTER and KEYS,"""
    after_keys: str = ""
    """and at the end."""


_NOT_CERTAIN = Traits(False, False, 0, True, MessageType.NORMAL)


class TraitsReader:
    """Reads what is left of properties without UNIQ_KEY and KEYS, and remembers it.

    Args:
        region_is_stored: MSG_REGION and TRACE_ON are, by profile.
        wait_is_stored: WAIT is, by profile; a half message keeps it always.
    """

    def __init__(self, *, region_is_stored: bool, wait_is_stored: bool) -> None:
        self._added = traced(region_is_stored=region_is_stored)
        self.wait_is_stored = wait_is_stored
        self.known = lru_cache(maxsize=1024)(self.read)
        """`read`, for texts that come again and again."""

    def read(self, text: str) -> Traits:
        """The traits."""
        properties = decode_properties(text)
        special = _SPECIAL.intersection(properties)
        # Messages with special properties need more than being stored; half messages are the
        # exception.
        parts = None if special - _HALF else self._parts(properties, is_half=special == _HALF)
        return Traits(
            not special and parts is not None,
            special == _HALF
            and parts is not None
            # Java reads the text of this property as a boolean, in any case.
            and properties[names.TRANSACTION_PREPARED].lower() == "true"
            and _ADDED_TO_HALF.isdisjoint(properties),
            tags_code(properties.get(names.TAGS)),
            properties.get(names.WAIT) != "false",
            type_of(properties),
            *(parts or ()),
        )

    def _parts(self, properties: dict[str, str], *, is_half: bool) -> tuple[str, str, str] | None:
        """What is stored before UNIQ_KEY, before KEYS and behind it; None where these change it."""
        # A property with the place of UNIQ_KEY or KEYS would come between the parts.
        if len(properties) > _MOST_PARTS or not _OF_KEYS.isdisjoint(map(java_place, properties)):
            return None
        stored = properties | self._added
        # A half message keeps WAIT, which counts when the message is committed.
        if not (self.wait_is_stored or is_half):
            stored.pop(names.WAIT, None)
        parts = ["", "", ""]
        for name in java_order(tuple(stored)):
            place = java_place(name)
            # In Java's order, and split where UNIQ_KEY and KEYS belong: these differ between
            # messages.
            parts[(place > _KEY_PLACE) + (place > _KEYS_PLACE)] += f"{name}\x01{stored[name]}\x02"
        return parts[0], parts[1], parts[2]


ALL_STORED = TraitsReader(region_is_stored=True, wait_is_stored=True)
"""Of 5.x."""


def read_sent(
    text: str, reader: TraitsReader = ALL_STORED
) -> tuple[str | None, str | None, Traits]:
    """UNIQ_KEY, KEYS and the traits of a send's properties.

    When neither `is_plain` nor `is_half`, ignore the rest and use `decode_properties`.
    """
    found: list[str | None] = []
    for name in _VARYING:
        at = text.find(name)
        if at < 0:
            found.append(None)
            continue
        # The name stands in a value: the whole text has to be parsed.
        if at and text[at - 1] != "\x02":
            return None, None, _NOT_CERTAIN
        end = text.find("\x02", at)
        if end < 0:
            end = len(text)
        found.append(text[at + len(name) : end] or None)
        text = text[:at] + text[end + 1 :]
    uniq_key, keys = found
    # A long text is not worth remembering, because it is unlikely to come again.
    if len(text) > MAX_REMEMBERED:
        return uniq_key, keys, reader.read(text)
    return uniq_key, keys, reader.known(text)


def type_of_text(text: str) -> MessageType:
    """What metrics count a send with these properties as."""
    return _known_type(text) if len(text) <= MAX_REMEMBERED else _read_type(text)


def _read_type(text: str) -> MessageType:
    _, _, traits = read_sent(text)
    return type_of(decode_properties(text)) if traits is _NOT_CERTAIN else traits.message_type


_known_type = lru_cache(maxsize=64)(_read_type)
"""Of batch requests, whose own properties are mostly `WAIT true`."""
