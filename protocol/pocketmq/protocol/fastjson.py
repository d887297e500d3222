"""The JSON dialect of RocketMQ's fastjson (E-60), read and, where a peer needs it, written.

Beyond standard JSON it takes raw integer keys `{0:"a"}`, objects as keys `{{"brokerName":..}:1}`
(they come out as their compact JSON text) and references `{"$ref":"$.path"}`. `parse` is slow:
only bodies and files that a strict parser refuses are read by it.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_DEPTH = 64
"""Deeper nesting than any RocketMQ body has; more is an attack, not data."""

_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_RAW_KEY = re.compile(rb'"(?:[^"\\]|\\.)*"|([{,][ \t\r\n]*)(-?\d+)[ \t\r\n]*:', re.DOTALL)
"""A string, to be stepped over, or an integer key with what stands before it."""
_MAX_DIGITS = 40
_WORDS = {"true": True, "false": False, "null": None}


class FastjsonError(ValueError):
    """The text is not JSON in any dialect; says where."""


def parse(text: str) -> Any:
    """The value of a whole text.

    Raises:
        FastjsonError: with the position of the first character that does not fit.
    """
    reader = _Reader(text)
    value = reader.value(0)
    reader.skip()
    if reader.at != len(text):
        raise reader.error("the end")
    # Most texts have no references and need no second pass.
    if '"$ref"' in text:
        return _Resolver(value, max_values=4 * len(text)).resolve(value, 0)
    return value


def dump(value: Any) -> str:
    """Compact text with sorted keys in which integer keys stand raw, as old peers get it (N-27)."""
    if isinstance(value, dict):
        entries = sorted((_key_text(key), dump(item)) for key, item in value.items())
        return "{" + ",".join(f"{key}:{item}" for key, item in entries) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value)


def quote_integer_keys(text: bytes) -> bytes:
    """Make `{0:"a"}` standard JSON, at the speed of a regular expression; the rest stays."""
    return _RAW_KEY.sub(_quoted, text)


def _quoted(match: re.Match[bytes]) -> bytes:
    before, key = match.group(1, 2)
    return match.group() if key is None else before + b'"' + key + b'":'


def _key_text(key: object) -> str:
    return str(key) if isinstance(key, int) else json.dumps(key)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.is_in_key = False

    def error(self, wanted: str) -> FastjsonError:
        return FastjsonError(f"expected {wanted} at character {self.at}")

    def skip(self) -> str:
        match = _SPACE.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.text[self.at : self.at + 1]

    def value(self, depth: int) -> Any:
        # Nesting is bounded, because each level is a call of this function.
        if depth > MAX_DEPTH:
            raise self.error(f"at most {MAX_DEPTH} levels of nesting")
        char = self.skip()
        if char == "{":
            return self.object(depth)
        if char == "[":
            return self.array(depth)
        if char == '"':
            return self.string()
        for word, value in _WORDS.items():
            if self.text.startswith(word, self.at):
                self.at += len(word)
                return value
        return self.number()

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise self.error("a closed string")
        try:
            value: str = json.loads(match.group(), strict=False)
            value.encode()  # half a surrogate pair could be read, and then never be sent on
        except ValueError as exc:  # UnicodeEncodeError is one
            raise self.error("a readable string") from exc
        self.at = match.end()
        return value

    def number(self) -> int | float:
        match = _NUMBER.match(self.text, self.at)
        # Refuse numbers with very many digits: converting them takes long.
        if match is None or len(match.group()) > _MAX_DIGITS:
            raise self.error("a value")
        self.at = match.end()
        digits = match.group()
        # A number without point or exponent stays an integer, as Java's long does.
        return int(digits) if digits.lstrip("-").isdigit() else float(digits)

    def array(self, depth: int) -> list[Any]:
        self.at += 1
        items: list[Any] = []
        if self.skip() == "]":
            self.at += 1
            return items
        while True:
            items.append(self.value(depth + 1))
            char = self.skip()
            self.at += 1
            if char == "]":
                return items
            if char != ",":
                self.at -= 1
                raise self.error("',' or ']'")

    def object(self, depth: int) -> dict[str, Any]:
        self.at += 1
        fields: dict[str, Any] = {}
        if self.skip() == "}":
            self.at += 1
            return fields
        while True:
            key = self.key(depth + 1)
            if self.skip() != ":":
                raise self.error("':'")
            self.at += 1
            fields[key] = self.value(depth + 1)
            char = self.skip()
            self.at += 1
            if char == "}":
                return fields
            if char != ",":
                self.at -= 1
                raise self.error("',' or '}'")

    def key(self, depth: int) -> str:
        """A key, as text; one that is an object holds none of its kind.

        Quotes of a text in a text are escaped, so that each level would double what it takes.
        """
        char = self.skip()
        if char == '"':
            return self.string()
        if char not in "{[":
            return json.dumps(self.value(depth))
        if self.is_in_key:
            raise FastjsonError(
                f"at character {self.at}: an object or array is used as a key inside another key; "
                "use a string or a number here"
            )
        self.is_in_key = True
        value = self.value(depth)
        self.is_in_key = False
        return json.dumps(value, separators=(",", ":"), sort_keys=True)


class _Resolver:
    """Replaces references; each may be followed often, so what they unfold to is bounded."""

    def __init__(self, root: Any, max_values: int) -> None:
        self.root = root
        self.left = max_values

    def resolve(self, value: Any, depth: int) -> Any:
        self.left -= 1
        # Bound depth and count: references may form a cycle, or a few may expand to millions of
        # values.
        if depth > MAX_DEPTH or self.left < 0:
            raise FastjsonError(
                "the JSON references ($ref) form a circle, nest too deeply, or stand for too "
                "many values"
            )
        if isinstance(value, dict):
            path = value.get("$ref")
            if len(value) == 1 and isinstance(path, str):
                return self.resolve(_follow(path, self.root), depth + 1)
            return {key: self.resolve(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolve(item, depth + 1) for item in value]
        return value


def _follow(path: str, root: Any) -> Any:
    """`$`, `$.name`, `$.name[0]`, `$["name"]`: the paths fastjson writes."""
    steps = re.findall(r"\.([^.\[\]]+)|\[(\d+)\]|\[\"([^\"]+)\"\]", path)
    value = root
    for name, index, quoted in steps:
        try:
            value = value[int(index)] if index else value[name or quoted]
        except (KeyError, IndexError, TypeError) as exc:
            raise FastjsonError(f"reference {path!r} leads nowhere") from exc
    return value
