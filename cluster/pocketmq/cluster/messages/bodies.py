"""A message's body as people want to see it: pure."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

BodyForm = Literal["auto", "text", "json", "hex"]

HEX_CHARS: Final = 5
"""Characters of a hex dump for each byte, rounded up."""


def shown(body: bytes, form: BodyForm = "auto") -> str:
    """The body: text as it is, JSON indented, bytes as a hex dump.

    Args:
        body: Inflated.
        form: `auto` takes JSON, else text, else hex.
    """
    if form in ("auto", "json"):
        try:
            return json.dumps(json.loads(body), indent=2, ensure_ascii=False)
        except ValueError:
            if form == "json":
                # No valid JSON, so the text is the nearest to it.
                form = "text"
    if form in ("auto", "text"):
        try:
            return body.decode()
        except UnicodeDecodeError:
            if form == "text":
                # Text was requested: replacement characters are more useful than a dump.
                return body.decode("utf-8", "replace")
    return "\n".join(hex_lines(body))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The begin of a body."""

    text: str
    form: Literal["text", "hex"]
    is_whole: bool


def excerpt(body: bytes, most: int) -> Excerpt:
    """The begin of a body, where there is little room: as text, or else as a hex dump.

    Args:
        body: Inflated.
        most: Characters at most.
    """
    part = body[:most]
    is_whole = len(part) == len(body)
    try:
        # A character that the cut divides is left out, and does not make bytes of a text.
        text = codecs.getincrementaldecoder("utf-8")().decode(part, final=is_whole)
    except UnicodeDecodeError:
        text = "\0"
    # No text has a zero byte, which UTF-8 would take.
    if "\0" not in text:
        return Excerpt(text, "text", is_whole)
    part = body[: most // HEX_CHARS]
    return Excerpt("\n".join(hex_lines(part)), "hex", len(part) == len(body))


def hex_lines(body: bytes) -> Iterator[str]:
    """Lines of 16 bytes: offset, hexadecimal digits, characters."""
    for at in range(0, len(body), 16):
        part = body[at : at + 16]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        # Two padded groups of eight, so that the characters of short lines stay in their column.
        yield f"{at:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {text}"
