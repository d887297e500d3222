"""A message's body as people want to see it: pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

BodyForm = Literal["auto", "text", "json", "hex"]


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


def hex_lines(body: bytes) -> Iterator[str]:
    """Lines of 16 bytes: offset, hexadecimal digits, characters."""
    for at in range(0, len(body), 16):
        part = body[at : at + 16]
        text = "".join(chr(each) if 32 <= each < 127 else "." for each in part)
        # Two padded groups of eight, so that the characters of short lines stay in their column.
        yield f"{at:08x}  {part[:8].hex(' '):<23}  {part[8:].hex(' '):<23}  {text}"
