"""The text of a Java properties file, such as RocketMQ's `broker.conf`."""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.runtime.errors import ConfigError


def parse_properties(text: str) -> dict[str, str]:
    """Keys and values; of a key that is there twice, the last value.

    Understands comments (`#`, `!`), the separators `=`, `:` and white space, lines continued by a
    backslash, and the escapes `\\t \\n \\r \\f \\\\ \\uXXXX`.

    Raises:
        ConfigError: Four hex digits do not follow `\\u`.
    """
    return dict(_properties(text))


def _properties(text: str) -> Iterator[tuple[str, str]]:
    lines = iter(text.splitlines())
    for raw in lines:
        line = raw.lstrip()
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            # A backslash at the end of the file continues with nothing, as in Java.
            line = line[:-1] + next(lines, "").lstrip()
        end = 0
        while end < len(line) and line[end] not in "=: \t\f":
            end += 2 if line[end] == "\\" else 1
        key, rest = line[:end], line[end:].lstrip(" \t\f")
        # One separator only: a second `=` belongs to the value.
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        yield _unescape(key), _unescape(rest)


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\" or at == len(text):
            out.append(char)
            continue
        escaped = text[at]
        at += 1
        if escaped == "u":
            digits = text[at : at + 4]
            try:
                out.append(chr(int(digits, 16)))
            except ValueError:
                raise ConfigError(f"\\u{digits}", "four hex digits must follow \\u") from None
            at += 4
        else:
            out.append({"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped))
    return "".join(out)
