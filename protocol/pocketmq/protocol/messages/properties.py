"""Message properties: their names, and the string they travel and are stored as (S-6).

    name 0x01 value 0x02  name 0x01 value 0x02 ...        UTF-8, at most 32767 bytes in all

A message with the tag "new" and two keys:

    TAGS 0x01 new 0x02 KEYS 0x01 order-17 ann 0x02        {TAGS: new, KEYS: order-17 ann}

The last 0x02 may be missing. As RocketMQ does, an entry without a value, or of fewer than three
characters, is dropped by the reader.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple

from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.java import java_hash

PROPERTY_SEPARATOR: Final = "\x02"
KEY_SEPARATOR: Final = " "
"""Between the words inside KEYS."""
MAX_PROPERTIES_BYTES: Final = 32767

KEYS: Final = "KEYS"
"""Index keys, separated by one space."""
TAGS: Final = "TAGS"
"""The message's tag; its hash stands in the consume queue."""
WAIT: Final = "WAIT"
"""`true`: answer the send only when the message is stored as the flush mode demands."""
DELAY: Final = "DELAY"
"""Delay level 1..18."""
UNIQ_KEY: Final = "UNIQ_KEY"
"""The client's message id; retries of one send share it (P-43)."""
RETRY_TOPIC: Final = "RETRY_TOPIC"
"""Original topic of a message in `%RETRY%group` (B-81)."""
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
"""Offset id of the first copy of a message that was sent back."""
RECONSUME_TIME: Final = "RECONSUME_TIME"
MAX_RECONSUME_TIMES: Final = "MAX_RECONSUME_TIMES"
CONSUME_START_TIME: Final = "CONSUME_START_TIME"
REAL_TOPIC: Final = "REAL_TOPIC"
"""True topic of a delayed or half message."""
REAL_QUEUE_ID: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
"""`true` on a half message."""
PRODUCER_GROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
MIN_OFFSET: Final = "MIN_OFFSET"
"""Added by the client after a pull (C-41)."""
MAX_OFFSET: Final = "MAX_OFFSET"
MSG_REGION: Final = "MSG_REGION"
TRACE_SWITCH: Final = "TRACE_ON"
CLUSTER: Final = "CLUSTER"
INSTANCE_ID: Final = "INSTANCE_ID"
BUYER_ID: Final = "BUYER_ID"
CORRELATION_ID: Final = "CORRELATION_ID"
MESSAGE_REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
MESSAGE_TTL: Final = "TTL"
MESSAGE_TYPE: Final = "MSG_TYPE"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
REPLY_MESSAGE_ARRIVE_TIME: Final = "ARRIVE_TIME"
SHARDING_KEY: Final = "__SHARDINGKEY"
INNER_MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET: Final = "INNER_MULTI_QUEUE_OFFSET"
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
"""0, the lowest, and up: the number of the message's queue in a topic of priorities (V-2)."""
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"
TIMER_DELAY_LEVEL: Final = "TIMER_DELAY_LEVEL"
POP_CK: Final = "POP_CK"
POP_CK_OFFSET: Final = "POP_CK_OFFSET"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
ORIGIN_GROUP: Final = "ORIGIN_GROUP"
"""Group of a popped message that comes again (K-90)."""
DLQ_ORIGIN_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DLQ_ORIGIN_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
TRANSFER_FLAG: Final = "TRANSFER_FLAG"
CORRECTION_FLAG: Final = "CORRECTION_FLAG"
MQ2_FLAG: Final = "MQ2_FLAG"
EXTEND_UNIQ_INFO: Final = "EXTEND_UNIQ_INFO"
DUP_INFO: Final = "DUP_INFO"
CRC32: Final = "__CRC32#"
BORN_HOST: Final = "__BORNHOST"
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
REDIRECT: Final = "REDIRECT"
FORWARD_QUEUE_ID: Final = "PROPERTY_FORWARD_QUEUE_ID"
"""Reserved by RocketMQ (`MessageConst`); nothing here reads it."""

RESERVED: Final = frozenset(
    value
    for name, value in list(globals().items())
    if name.isupper()
    and isinstance(value, str)
    and not name.startswith("_")
    and not name.endswith(("_SEPARATOR", "_PREFIX"))
)
"""Names that have a meaning of their own; user code sets them through `Message`'s arguments only.

A server takes them from anyone (E-44). What is no name stands below, or is left out by its suffix.
"""

REPLY_TYPE: Final = "reply"
"""Value of MSG_TYPE of a reply (R-5)."""
DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""How long DELAY 1, 2, ... is at a broker that was not told otherwise (B-90)."""


def encode_properties(properties: Mapping[str, str]) -> str:
    """The string for a send header's `properties` or, as UTF-8, for a record.

    One pass and one join; entries keep the mapping's order.

    Raises:
        IllegalMessageError: a name or value holds 0x01 or 0x02, which would forge other entries.
    """
    text = "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
    count = len(properties)
    # Each entry has one of each separator; another count means that a name or value contains one.
    if text.count("\x01") != count or text.count("\x02") != count:
        bad = next(
            name
            for name, value in properties.items()
            if not {"\x01", "\x02"}.isdisjoint(name + value)
        )
        raise IllegalMessageError(
            f"the name or the value of property {bad!r} contains the separator 0x01 or 0x02; "
            "remove the separator"
        )
    return text


READ_PLACES: Final = 128


def encode_again(properties: Mapping[str, str], least: int = READ_PLACES) -> str:
    """What a broker writes of properties that `decode_properties` read; never fails.

    In the order in which RocketMQ's broker has them, that of Java's map (`java_order`). A value
    that was read may hold 0x01. It forges nothing: the first one of an entry ends its name.

    Args:
        properties: in the order in which RocketMQ puts them into its map.
        least: how many places that map begins with.
    """
    given = tuple(properties)
    # Long or many names are not cached: a sender could fill the memory with them.
    known = len(given) <= _MOST_NAMES and sum(map(len, given)) <= _MAX_REMEMBERED_CHARS
    ordered = (_known_order if known else java_order)(given, least)
    return "".join([f"{name}\x01{properties[name]}\x02" for name in ordered])


def java_order(given: tuple[str, ...], least: int = READ_PLACES) -> tuple[str, ...]:
    """Names in the order in which a `HashMap` of Java has them.

    It doubles its places when three of four are taken; names of one place stand as they came.

    Args:
        given: the names, in the order in which they were put into it.
        least: how many places it began with: 128 where RocketMQ reads properties.
    """
    places = least
    # A Java `HashMap` doubles when it is three quarters full, which changes its order.
    while len(given) > places * 3 // 4:
        places *= 2
    return tuple(sorted(given, key=lambda name: java_place(name, places)))


def java_place(name: str, places: int = READ_PLACES) -> int:
    """The place of a name in a `HashMap` of Java that has so many."""
    # As in Java's `HashMap`, the upper bits of the hash count, too.
    hashed = java_hash(name) & 0xFFFFFFFF
    return (hashed ^ hashed >> 16) & places - 1


_known_order = lru_cache(maxsize=1024)(java_order)
_MOST_NAMES: Final = 64
"""Of more than these, or of long ones, the order is found each time."""


def priority_of(properties: Mapping[str, str]) -> int:
    """The priority, 0 and up, that properties have; -1 without one or if Java reads none (V-1)."""
    digits = properties.get(PRIORITY, "").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        return -1
    digits = digits.lstrip("0")  # of which Java reads any number
    if len(digits) > 10:
        return -1
    priority = int(digits or "0")
    return priority if priority < 2**31 else -1


def decode_properties(text: str) -> dict[str, str]:
    """Names and values in their order; a name that comes twice keeps the later value.

    Never fails: what is no entry is dropped, as RocketMQ drops it.
    """
    properties: dict[str, str] = {}
    for entry in text.split("\x02"):
        name, _, value = entry.partition("\x01")
        # RocketMQ drops an entry without name or value, and so must every reader here.
        if name and value:
            properties[name] = value
    return properties


KEY_MARK: Final = "\x03"
"""Stands for the unique key in a text that is remembered,"""
KEYS_MARK: Final = "\x04"
"""and this for the index keys."""
_LEAST_KEY_CHARS: Final = 16
"""A shorter key may be part of a name."""
_MAX_REMEMBERED_CHARS: Final = 512


def decode_alike(text: str) -> dict[str, str]:
    """`decode_properties` for messages of one sender: a third of the time if all are alike.

    UNIQ_KEY, wherever its value stands, and KEYS may differ; the rest is remembered.
    """
    alike = read_alike(text)
    if alike is None:
        return decode_properties(text)
    uniq_key, keys, shared = alike
    properties = dict(shared.properties)
    for name in shared.marked:
        value = properties[name].replace(KEY_MARK, uniq_key)
        properties[name] = value.replace(KEYS_MARK, keys)
    return properties


@dataclass(frozen=True, slots=True, eq=False)
class SharedProperties:
    """What messages have in common whose properties differ in UNIQ_KEY and KEYS only.

    The same object for all of them, while it is remembered: what is made of it may be, too.
    """

    properties: Mapping[str, str]
    """With KEY_MARK in place of the unique key, wherever it stands, and KEYS_MARK for the keys."""
    marked: tuple[str, ...]
    """Whose values have a mark."""


class Alike(NamedTuple):
    """Properties of one message."""

    uniq_key: str
    """The unique key; empty without one that is long enough to be looked for in other values."""
    keys: str
    shared: SharedProperties


def read_alike(text: str) -> Alike | None:
    """What `decode_alike` reads, before it is put together; None: `decode_properties` has to."""
    # A text that contains a mark itself cannot be handled here.
    if len(text) > _MAX_REMEMBERED_CHARS or KEY_MARK in text or KEYS_MARK in text:
        return None
    keys = ""
    at = text.find(f"{KEYS}\x01")
    # Only at the start of an entry: a value may contain the name.
    if at == 0 or (at > 0 and text[at - 1] == PROPERTY_SEPARATOR):
        begin, end = at + len(KEYS) + 1, text.find(PROPERTY_SEPARATOR, at)
        if end > begin:
            keys, text = text[begin:end], f"{text[:begin]}{KEYS_MARK}{text[end:]}"
    key = ""
    at = text.find(f"{UNIQ_KEY}\x01")
    if at == 0 or (at > 0 and text[at - 1] == PROPERTY_SEPARATOR):
        begin, end = at + len(UNIQ_KEY) + 1, text.find(PROPERTY_SEPARATOR, at)
        # A short key could also occur in names and in other values.
        if end - begin >= _LEAST_KEY_CHARS:
            key = text[begin:end]
            # Replace every occurrence: a transaction's id equals its unique key.
            text = text.replace(key, KEY_MARK)
    shared = _shared(text)
    return None if shared is None else Alike(key, keys, shared)


@lru_cache(maxsize=1024)
def _shared(text: str) -> SharedProperties | None:
    """Of a text with marks; None: a name has one."""
    known = decode_properties(text)
    # A mark inside a name could not be replaced later.
    if not _MARKS.isdisjoint("".join(known)):
        return None
    marked = tuple(name for name, value in known.items() if not _MARKS.isdisjoint(value))
    return SharedProperties(known, marked)


_MARKS: Final = frozenset({KEY_MARK, KEYS_MARK})


def add_to_stored(stored: bytes, added: Mapping[str, str]) -> bytes:
    """`encode_again` of stored properties and some more; half of the time.

    Args:
        stored: as `encode_again` wrote them, or as a client sent them.
        added: whose names may be among them: they have the new values then.
    """
    entries = stored.split(b"\x02")
    last = entries.pop()
    stored_names = tuple(_NAMES(stored))
    ordered = None
    # The quick way needs whole entries with values, and few enough of them to cache.
    if not last and len(stored_names) == len(entries) and len(stored) <= _MAX_REMEMBERED_BYTES:
        ordered = _ordered(stored_names, tuple(added))
    if ordered is None:
        # The slow way has the same result.
        known = decode_properties(stored.decode("utf-8", "replace"))
        return encode_again(known | dict(added)).encode()
    entries += [f"{name}\x01{value}".encode() for name, value in added.items()]
    return b"\x02".join(ordered(entries)) + b"\x02"


_NAMES = re.compile(b"(?<![^\x02])([^\x01\x02]+)\x01[^\x02]+\x02").findall
"""The names of stored properties that have a value; each stands at the start of an entry, as an
entry without a name may have a second 0x01."""
_MAX_REMEMBERED_BYTES: Final = 2048


@lru_cache(maxsize=1024)
def _ordered(
    stored: tuple[bytes, ...], added: tuple[str, ...]
) -> Callable[[list[bytes]], tuple[bytes, ...]] | None:
    """Brings entries into their order; None if a name comes twice."""
    given = (*[name.decode("utf-8", "replace") for name in stored], *added)
    if len(given) < 2 or len(set(given)) < len(given):
        return None
    return itemgetter(*map(given.index, java_order(given)))


def stored_name(name: str) -> bytes:
    """A name as `stored_value` looks for it."""
    return f"\x02{name}\x01".encode()


def stored_value(text: bytes, name: bytes) -> str | None:
    """One property of stored ones, as `decode_properties` reads it; a tenth of its time.

    Args:
        text: 0x02, and then the properties as they are stored.
        name: `stored_name(...)`.
    """
    # Search from the end: if a name occurs twice, the later value counts.
    at = text.rfind(name)
    if at < 0:
        return None
    begin = at + len(name)
    end = text.find(b"\x02", begin)
    value = text[begin:] if end < 0 else text[begin:end]
    if value:
        return value.decode("utf-8", "replace")
    # The last one has no value and does not count; whether an earlier one does is seen in full.
    return decode_properties(text.decode("utf-8", "replace")).get(name[1:-1].decode())
