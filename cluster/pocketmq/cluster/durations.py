"""Durations as people write them: `126`, `126s`, `500ms`, `1.5h`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from pocketmq.protocol.messages.properties import DELAY_LEVELS
from pocketmq.runtime.errors import CallerError

UNITS_MS: Final[Mapping[str, int]] = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}

LEVELS: Final = tuple(DELAY_LEVELS.split())
"""The lengths of delay levels 1 to 18."""


def parse_duration_ms(text: str) -> int:
    """Milliseconds of `126`, `126s`, `1.5h`, `500ms`.

    Raises:
        CallerError: The text is no duration.
    """
    # Only letters at the end are the unit; the rest may have a sign or an exponent.
    number = text.strip().rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = text.strip()[len(number) :] or "s"
    try:
        # `float` accepts `nan` and `inf`; `round` refuses both below.
        if unit not in UNITS_MS or float(number) < 0:
            raise ValueError
        return round(float(number) * UNITS_MS[unit])
    except (ValueError, OverflowError):
        raise CallerError(
            f"{text!r} is not a duration; write a duration like 126, 126s, 500ms, 5m or 2h"
        ) from None


def as_seconds(name: str, value: object) -> float:
    """The value of an argument that counts seconds, or is a duration such as `"2h"`.

    Raises:
        CallerError: It is neither; the message says what to write.
    """
    return parse_duration_ms(value) / 1000 if isinstance(value, str) else as_number(name, value)


def as_number(name: str, value: object) -> float:
    """The value of an argument that counts seconds, minutes or hours, in a program.

    Raises:
        CallerError: It is no number, as `"2h"`; the message says what to write.
    """
    # In Python True is an int, but nobody means a second by it.
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    advice = "write a number"
    if isinstance(value, str):
        # If the text is a duration, the message can name the number to write.
        with suppress(CallerError):
            advice = f"write the number {parse_duration_ms(value) / 1000:g}, in seconds"
    raise CallerError(f"{name} is {value!r}, which is not a number; {advice}")
