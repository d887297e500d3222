"""Tables as lines of text that fit a width: pure.

    queue       min  max  last update
    broker-a/0    0  120  2026-11-22 20:15:02

No boxes and no colour. Where the cells of a row need more than the width, long texts lose their
middle: the ends of a client id tell clients apart, `192.168.17.4@12…#8471`. Widths are those of a
terminal: a Chinese character takes two columns, a combining accent none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Cell = str | int | float | None

GAP: Final = "  "
ELLIPSIS: Final = "…"
SHORTEST: Final = 8
"""Columns that a shortened text keeps at least."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below named columns.

    A number is written with thousands separators and stands at the right; None is a dash.
    """

    name: str
    """Singular: in tab-separated output of several tables each row begins with it."""
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    last_cut: str = ""
    """A column that is shortened only where all others are already: one without which the rest
    says nothing."""


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


def shortened(text: str, width: int) -> str:
    """The text, or its two ends around an ellipsis if it is wider than that many columns."""
    if columns(text) <= width:
        return text
    kept = width - len(ELLIPSIS)
    begin = _fitting(text, kept - kept // 2)
    return begin + ELLIPSIS + _fitting(text[::-1], kept - columns(begin))[::-1]


def aligned(table: Table, width: int) -> list[str]:
    """A line for the columns' names and one for each row, none longer than the width.

    Only texts are shortened; a table whose numbers alone are wider stays wider.
    """
    cells = [table.columns, *(tuple(map(_shown, row)) for row in table.rows)]
    is_number = [
        bool(table.rows) and all(isinstance(row[at], int | float | None) for row in table.rows)
        for at in range(len(table.columns))
    ]
    widths = [max(columns(row[at]) for row in cells) for at in range(len(table.columns))]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while excess > 0:
        texts = [at for at, size in enumerate(widths) if size > SHORTEST and not is_number[at]]
        if not texts:
            break
        others = [at for at in texts if table.columns[at] != table.last_cut]
        widest = max(others or texts, key=widths.__getitem__)
        widths[widest] -= 1
        excess -= 1
    return [
        GAP.join(
            _padded(shortened(cell, size), size, at_left=number)
            for cell, size, number in zip(row, widths, is_number, strict=True)
        ).rstrip()
        for row in cells
    ]


def tab_separated(table: Table, *, named: bool = False) -> list[str]:
    """A line for each row, without the columns' names; empty for None.

    Args:
        table: The rows.
        named: Begin each line with the table's name.
    """
    before = (table.name,) if named else ()
    return ["\t".join(map(_plain, (*before, *row))) for row in table.rows]


def _columns_of(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "FW" else 1


def _fitting(text: str, width: int) -> str:
    """The longest beginning that takes no more columns."""
    for at, char in enumerate(text):
        width -= _columns_of(char)
        if width < 0:
            return text[:at]
    return text


def _padded(text: str, width: int, *, at_left: bool) -> str:
    blanks = " " * (width - columns(text))
    return blanks + text if at_left else text + blanks


def _shown(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:,.1f}"
    return f"{cell:,}" if isinstance(cell, int) else _one_line(cell)


def _plain(cell: Cell) -> str:
    if cell is None:
        return ""
    return f"{cell:g}" if isinstance(cell, float) else _one_line(str(cell))


def _one_line(text: str) -> str:
    """Without what would break a row: an id or a key may hold any character."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
