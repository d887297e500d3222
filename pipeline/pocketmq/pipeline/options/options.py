"""Looks up and checks options of reads and writes; proposes the right name for a mistyped one.

Names are those of the Kafka connector or of rocketmq-spark, in any case, with or without the prefix
`rocketmq.`. An unknown name is an error: a read that ignores a mistyped `maxOffsetPerTrigger` would
run for hours before anybody notices.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pocketmq.pipeline.errors import OptionError, near

PREFIX: Final = "rocketmq."

SPARKS_OWN: Final = frozenset(
    {
        "path", "paths", "checkpointlocation", "queryname", "outputmode", "mergeschema",
        "recursivefilelookup", "__scheme__",
    }
)  # fmt: skip
"""Options that Spark itself adds to those of a source or sink."""

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class Option:
    """One option; the tables of docs/spark-options.md are checked against it."""

    name: str
    help: str
    default: str = ""
    """The default as text; empty for none."""
    aliases: tuple[str, ...] = ()


class Options:
    """The user's options, looked up by any of their names.

    Args:
        source: `pocketmq` or `pocketmq-store`, for error messages.
        given: Names and values as Spark passes them.
        known: All options of the source.

    Raises:
        OptionError: A name is not known, or two names of one option have different values.
    """

    def __init__(self, source: str, given: Mapping[str, str], known: Sequence[Option]) -> None:
        self.source = source
        self._known = {option.name: option for option in known}
        names = {
            name.lower(): (option.name, name)
            for option in known
            for name in (option.name, *option.aliases)
        }
        self._values: dict[str, str] = {}
        self._written: dict[str, str] = {}
        for key, value in given.items():
            lower = key.lower()
            # The whole name is looked up first, since an option's name may itself begin with the
            # prefix.
            found = names.get(lower) or names.get(lower.removeprefix(PREFIX))
            if found is None:
                if lower in SPARKS_OWN:
                    continue
                raise self._unknown(key, known)
            name, spelling = found  # Spark hands all names over in lower case
            # Two spellings of one option are fine if their values are equal.
            if self._values.get(name, value) != value:
                raise OptionError(
                    source,
                    spelling,
                    f"the value contradicts {self._written[name]}={self._values[name]!r}, "
                    "which is the same option; leave out one of the two",
                )
            self._values[name] = value
            self._written[name] = spelling

    def _unknown(self, key: str, known: Sequence[Option]) -> OptionError:
        every = [name for option in known for name in (option.name, *option.aliases)]
        meant = near(key.lower().removeprefix(PREFIX), every)
        problem = "there is no such option"
        if not meant:
            problem += f"; there are {', '.join(option.name for option in known)}"
        return OptionError(self.source, key, problem, near=meant)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def error(self, name: str, problem: str, *, near: Iterable[str] = ()) -> OptionError:
        """An error to raise for this option; it has the name that the user wrote."""
        return OptionError(self.source, self._written.get(name, name), problem, near=near)

    def text(self, name: str) -> str:
        """The value as text, or the default."""
        return self._values.get(name, self._known[name].default).strip()

    def words(self, name: str) -> list[str]:
        """The value as a list, separated by commas."""
        return [word.strip() for word in self.text(name).split(",") if word.strip()]

    def flag(self, name: str) -> bool:
        """The value as true or false."""
        value = self.text(name).lower()
        if value not in ("true", "false"):
            raise self.error(name, f"{value!r} is neither true nor false")
        return value == "true"

    def number(self, name: str, *, least: int = 0, most: int | None = None) -> int:
        """The value as a whole number."""
        value = self.text(name)
        try:
            number = int(value)
        except ValueError:
            raise self.error(name, f"{value!r} is no whole number") from None
        if number < least:
            raise self.error(name, f"{number} is less than {least}")
        if most is not None and number > most:
            raise self.error(name, f"{number} is more than {most}")
        return number

    def number_or_none(self, name: str, *, least: int = 0) -> int | None:
        """The value as a whole number; None when the option was not given."""
        return self.number(name, least=least) if name in self else None

    def choice(self, name: str, values: Sequence[str]) -> str:
        """The value, which must be one of `values` in any case."""
        value = self.text(name)
        for each in values:
            if each.lower() == value.lower():
                return each
        found = near(value, values)
        problem = f"{value!r} is not one of {', '.join(values)}"
        raise self.error(name, problem, near=found)

    def duration_ms(self, name: str) -> int:
        """The value in milliseconds; written as `500ms`, `30s`, `15m`, `2h`, or a bare number."""
        value = self.text(name).lower()
        # An unknown unit stays in the text, and is refused below.
        digits = value.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = value[len(digits) :].strip() or "ms"
        if not digits.isdigit() or unit not in _UNITS_MS:
            raise self.error(
                name, f"{value!r} is not a duration; write a duration like 500ms, 30s or 15m"
            )
        return int(digits) * _UNITS_MS[unit]

    def json_object(self, name: str, shape: str) -> dict[str, Any]:
        """The value as a JSON object; `shape` is an example for the error message."""
        value = self.text(name)
        try:
            found = json.loads(value)
        except ValueError as exc:
            raise self.error(
                name, f"the value is not valid JSON ({exc}); write it like {shape}"
            ) from None
        if not isinstance(found, dict):
            raise self.error(name, f"the value is not a JSON object; write it like {shape}")
        return found

    def exactly_one(self, names: Sequence[str]) -> str:
        """Which of these options was given."""
        given = [name for name in names if name in self]
        if len(given) == 1:
            return given[0]
        problem = (
            f"must be given, or one of {', '.join(names[1:])}"
            if not given
            else f"cannot be given together with {', '.join(given[1:])}"
        )
        raise self.error((given or names)[0], problem)
