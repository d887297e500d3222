"""Tables as lines of text that fit a width: pure.

    queue       min  max  last update
    broker-a/0    0  120  2026-11-22 20:15:02

No boxes and no colour. Where the cells of a row need more than the width, long texts lose their
middle: the ends of a client id tell clients apart, `192.168.17.4@12…#8471`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

Cell = str | int | float | None

GAP: Final = "  "
ELLIPSIS: Final = "…"
SHORTEST: Final = 8
"""Characters that a shortened text keeps at least."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below named columns.

    A number is written with thousands separators and stands at the right; None is a dash.
    """

    name: str
    """Singular: in tab-separated output of several tables each row begins with it."""
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]


def shortened(text: str, width: int) -> str:
    """The text, or its two ends around an ellipsis if it is longer than the width."""
    if len(text) <= width:
        return text
    kept = width - len(ELLIPSIS)
    return text[: kept - kept // 2] + ELLIPSIS + text[len(text) - kept // 2 :]


def aligned(table: Table, width: int) -> list[str]:
    """A line for the columns' names and one for each row, none longer than the width.

    Only texts are shortened; a table whose numbers alone are wider stays wider.
    """
    cells = [table.columns, *(tuple(map(_shown, row)) for row in table.rows)]
    is_number = [
        bool(table.rows) and all(isinstance(row[at], int | float | None) for row in table.rows)
        for at in range(len(table.columns))
    ]
    widths = [max(len(row[at]) for row in cells) for at in range(len(table.columns))]
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    while excess > 0:
        texts = [at for at, size in enumerate(widths) if size > SHORTEST and not is_number[at]]
        if not texts:
            break
        widest = max(texts, key=widths.__getitem__)
        widths[widest] -= 1
        excess -= 1
    return [
        GAP.join(
            shortened(cell, size).rjust(size) if number else shortened(cell, size).ljust(size)
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
