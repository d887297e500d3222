"""Draws the pictures of the store's pages from declared layouts, between their own markers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from pocketmq.broker.store.flush.checkpoint import CHECKPOINT, CHECKPOINT_CRC
from pocketmq.protocol.layout import Field, Layout
from pocketmq.protocol.store_layout import (
    BLANK,
    INDEX_ENTRY,
    INDEX_HEADER,
    INDEX_SLOT,
    LEDGER_ENTRY,
    QUEUE_ENTRY,
    RECORD,
)

DOCS = Path(__file__).parent
LAYOUTS = {
    "record": RECORD,
    "blank": BLANK,
    "ledger entry": LEDGER_ENTRY,
    "queue entry": QUEUE_ENTRY,
    "index header": INDEX_HEADER,
    "index slot": INDEX_SLOT,
    "index entry": INDEX_ENTRY,
    "checkpoint": Layout(*CHECKPOINT.fields, *CHECKPOINT_CRC.fields),
}
_MARKED = re.compile(r"(<!-- layout: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_WIDTH = 96


def store_files_page() -> str:
    """`store-files.md` with every picture drawn anew."""
    return _drawn("store-files.md")


def store_tools_page() -> str:
    """`store-tools.md` likewise."""
    return _drawn("store-tools.md")


def _drawn(name: str) -> str:
    """The page as it is, with every picture drawn anew.

    Raises:
        KeyError: the page wants a picture of a layout that is not declared.
    """
    text = (DOCS / name).read_text(encoding="utf-8")
    return _MARKED.sub(lambda found: found[1] + _section(LAYOUTS[found[2]]) + found[3], text)


def _section(layout: Layout) -> str:
    return "\n".join(["", "```", *picture(layout), "```", "", *_table(layout), "", ""])


def picture(layout: Layout) -> Iterator[str]:
    """Boxes in rows: position above, then name and type."""
    row: list[tuple[str, Field]] = []
    used = 0
    for at, field in _placed(layout):
        width = _box_width(field)
        if row and used + width + 1 > _WIDTH:
            yield from _row(row)
            row, used = [], 0
        row.append((at, field))
        used += width + 1
    yield from _row(row)


def _row(row: list[tuple[str, Field]]) -> Iterator[str]:
    border = "+" + "+".join("-" * _box_width(field) for _, field in row) + "+"
    yield "".join(at.ljust(_box_width(field) + 1) for at, field in row).rstrip()
    yield border
    for line in (lambda field: field.name, lambda field: field.kind):
        yield "|" + "|".join(line(field).center(_box_width(field)) for _, field in row) + "|"
    yield border


def _box_width(field: Field) -> int:
    return max(len(field.name), len(field.kind)) + 2


def _placed(layout: Layout) -> Iterator[tuple[str, Field]]:
    """Each field with its position; "" behind one whose length varies."""
    at: int | None = 0
    for field in layout.fields:
        yield "" if at is None else str(at), field
        at = None if at is None or field.size is None else at + field.size


def _table(layout: Layout) -> Iterator[str]:
    yield "| at | field | type | meaning |"
    yield "|---|---|---|---|"
    for at, field in _placed(layout):
        if field.meaning:
            yield f"| {at} | {field.name} | {field.kind} | {field.meaning} |"
