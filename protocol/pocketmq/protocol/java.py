"""Java's integer and string rules that RocketMQ's data depends on (S-31; T-9, A-1)."""

import sys
from typing import Final

_NATIVE_UTF16: Final = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"

_MAX_DIGITS: Final = 640
"""`int` takes text of any base up to so many digits, however it is configured."""
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"
_HIGH_DIGIT: Final = bytes(_DIGITS[unit // 31] for unit in range(256))
_LOW_DIGIT: Final = bytes(_DIGITS[unit % 31] for unit in range(256))


def java_hash(text: str) -> int:
    """`String.hashCode`: 31 * h + UTF-16 unit, wrapped to a signed 32-bit int.

    Characters beyond U+FFFF count as their two surrogates. O(length).
    """
    value = 0
    if text.isascii() and 0 < len(text) <= _MAX_DIGITS:
        # The polynomial in 31 is a number in base 31, but a character has up to 127 values. Each
        # is 31 * high + low, so it is two such numbers, and C reads them: 0.6 us for 40 characters
        # where the loop takes 4.
        units = text.encode()
        high, low = int(units.translate(_HIGH_DIGIT), 31), int(units.translate(_LOW_DIGIT), 31)
        value = (31 * high + low) & 0xFFFFFFFF
    else:
        for unit in memoryview(text.encode(_NATIVE_UTF16, "surrogatepass")).cast("H"):
            value = (31 * value + unit) & 0xFFFFFFFF
    return value - 0x100000000 if value > 0x7FFFFFFF else value


def to_int32(value: int) -> int:
    """What a cast to Java's int leaves of a number: its low 32 bits, signed."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def java_integer(text: str, bits: int = 32) -> int | None:
    """`Integer.parseInt`, with 64 bits `Long.parseLong`; None where Java throws.

    Texts of any length cost no more than their length. Only ASCII digits are read.
    """
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdecimal()):
        return None
    digits = digits.lstrip("0")  # of which Java reads any number
    # A Java long has at most 19 digits, and `int` is slow for thousands.
    if len(digits) > 19:
        return None
    value = int(digits or "0")
    if text[0] == "-":
        value = -value
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def java_split(text: str, at: str) -> list[str]:
    """`String.split` at a text that is no pattern: the parts, without the empty ones at the end.

    An empty text has one part, which is empty.
    """
    if not text:
        return [text]
    parts = text.split(at)
    while parts and not parts[-1]:
        parts.pop()
    return parts


def bucket(hash_value: int, buckets: int) -> int:
    """`Math.abs(hash % buckets)`: remainder first, so the result is never negative (P-51)."""
    return abs(hash_value) % buckets


def utf16_key(text: str) -> bytes:
    """A sort key that orders strings as Java's `compareTo` does, by UTF-16 unit (A-1).

    Differs from Python's order only where characters beyond U+FFFF meet U+E000..U+FFFF.
    """
    return text.encode("utf-16-be", "surrogatepass")
