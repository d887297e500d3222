"""Java's values: how texts become numbers there, and how two values compare (Q-10).

Properties are texts; constants are texts, 32- and 64-bit integers, doubles and booleans.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Final, TypeAlias

from pocketmq.protocol.scalars import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

Value: TypeAlias = str | int | float | bool | None


class Kind(Enum):
    """The type that a value has, if it has any; None is of each."""

    TEXT = "a text"
    INT = "a 32-bit integer"
    LONG = "a 64-bit integer"
    DOUBLE = "a decimal number"
    BOOLEAN = "true or false"
    NOTHING = "null"


NUMBERS: Final = frozenset({Kind.INT, Kind.LONG, Kind.DOUBLE})

_INTEGER: Final = re.compile(r"[+-]?\d+")
_MAX_DIGITS: Final = 640
"""Leading zeros count; Java takes more, at a cost that a message's sender would choose."""

_DOUBLE: Final = re.compile(
    r"([+-]?)(NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
)
_HEX_DOUBLE: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)
_SPACES: Final = "".join(map(chr, range(0x21)))
"""What `String.trim` cuts."""


class NotComparableError(ValueError):
    """Values that cannot be compared: the message does not match, whatever else is asked (Q-12)."""


def parse_integer(text: str, kind: Kind) -> int:
    """`Integer.valueOf` or `Long.valueOf`: no spaces, no point, within the width.

    Raises:
        NotComparableError: the text is no such number.
    """
    low, high = (INT32_MIN, INT32_MAX) if kind is Kind.INT else (INT64_MIN, INT64_MAX)
    if len(text) > _MAX_DIGITS or not _INTEGER.fullmatch(text):
        raise NotComparableError(f"{text[:80]!r} is no integer")
    number = int(text)
    if not low <= number <= high:
        raise NotComparableError(f"{text[:80]!r} is beyond {kind.value}")
    return number


def parse_double(text: str) -> float:
    """`Double.valueOf`: spaces around it, exponents, hexadecimal, NaN and Infinity.

    Raises:
        NotComparableError: the text is no number.
    """
    trimmed = text.strip(_SPACES)
    # Java accepts a suffix `d` or `f` after a decimal number.
    plain = trimmed[:-1] if trimmed[-1:] in "dDfF" and trimmed else trimmed
    if _DOUBLE.fullmatch(plain) and (plain is trimmed or plain[-1].isdigit() or plain[-1] == "."):
        return float(plain)
    for hexadecimal in (trimmed, plain):
        if _HEX_DOUBLE.fullmatch(hexadecimal):
            try:
                return float.fromhex(hexadecimal)
            except OverflowError:
                # Java, too, reads a hexadecimal number that is too large as infinity.
                return -math.inf if hexadecimal[0] == "-" else math.inf
    raise NotComparableError(f"{text[:80]!r} is no number")


def compare(left: Value, left_kind: Kind, right: Value, right_kind: Kind) -> int:
    """Negative, 0 or positive, after one side was converted to the other's type.

    Kinds that cannot be converted compare as "less"; neither value is None, nor are both texts.

    Raises:
        NotComparableError: a text is no number of the type it is compared with.
    """
    if left_kind is not right_kind:
        if left_kind is Kind.BOOLEAN:
            if right_kind is Kind.TEXT:
                raise NotComparableError(
                    "the left side of the comparison is TRUE or FALSE, so the right side cannot "
                    "be a text"
                )
            return -1
        if left_kind is Kind.TEXT:
            if right_kind is Kind.BOOLEAN:
                left = str(left).lower() == "true"
            else:
                left = _parsed(str(left), right_kind)
        elif right_kind is Kind.TEXT:
            right = _parsed(str(right), left_kind)
            right_kind = left_kind
        elif right_kind is Kind.BOOLEAN:
            return -1
    assert left is not None
    assert right is not None
    # Java compares a Long with a Double as two Doubles.
    if Kind.DOUBLE in (left_kind, right_kind):
        return _compare_doubles(float(left), float(right))
    return (left > right) - (left < right)  # type: ignore[operator]  # both are numbers here


def _parsed(text: str, kind: Kind) -> int | float:
    return parse_double(text) if kind is Kind.DOUBLE else parse_integer(text, kind)


def _compare_doubles(left: float, right: float) -> int:
    """`Double.compare`: NaN is the greatest, and -0.0 less than 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    a, b = _order_of_equals(left), _order_of_equals(right)
    return (a > b) - (a < b)


def _order_of_equals(number: float) -> int:
    if math.isnan(number):
        return 2
    return -1 if number == 0.0 and math.copysign(1.0, number) < 0 else 0
