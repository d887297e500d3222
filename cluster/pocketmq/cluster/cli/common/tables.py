"""Tables as lines of text that fit a width: pure.

    queue       min  max  last update
    broker-a/0    0  120  2026-11-22 20:15:02

No boxes and no colour, and nothing is left out. Where the cells of a row need more than the width,
long ones go on in a second line, sentences in as many as they need. Where that is not enough, each
row becomes a list of its columns:

    client id  192.168.117.204@12345#1795390563123456789
    queues     8

Widths are those of a terminal: a Chinese character takes two columns, a combining accent none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final, NamedTuple

Cell = str | int | float | None

GAP: Final = "  "
MOST_LINES: Final = 2
"""That a name or an id may take; longer ones make the table a list."""
LONGEST_WORD: Final = 24
"""Columns up to which words of a sentence are not broken."""
_BREAKS: Final = frozenset("-_.:@#/|%+,")
"""Behind which a name is broken rather than elsewhere."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows below named columns.

    A number is written with thousands separators and stands at the right; None is a dash.
    """

    name: str
    """Singular: in tab-separated output of several tables each row begins with it."""
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    kept_whole: str = ""
    """A column whose cells stay in one line as long as the others can give way."""


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns_of, text))


class Layout(NamedTuple):
    """A table as text."""

    head: str | None
    """The columns' names; None where each row is a list, which names them."""
    lines: list[str]


def laid_out(table: Table, width: int) -> Layout:
    """The table in lines that are no longer than the width.

    Numbers are not broken: a table whose numbers alone are wider stays wider.
    """
    cells = [tuple(map(_shown, row)) for row in table.rows]
    # Decided for a whole column: one text in it makes it a text column, which is left-aligned and
    # may be folded.
    is_number = [
        bool(table.rows) and all(isinstance(row[at], int | float | None) for row in table.rows)
        for at in range(len(table.columns))
    ]
    widths = _widths(table, cells, is_number, width - len(GAP) * (len(table.columns) - 1))
    if widths is None:
        return Layout(None, _as_lists(table.columns, cells, width))
    head, *lines = [
        GAP.join(
            _padded(part, size, at_left=number)
            for part, size, number in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for row in [table.columns, *cells]
        for line in zip_longest(*map(folded, row, widths), fillvalue="")
    ]
    return Layout(head, lines)


def folded(text: str, width: int) -> list[str]:
    """The text in lines of at most that many columns; at blanks, or behind a sign, if it can be."""
    lines: list[str] = []
    while columns(text) > width:
        begin = _fitting(text, width)
        # A space right after the fitting part is as good a place for the break.
        at = begin.rfind(" ") if len(begin) == len(text) or text[len(begin)] != " " else len(begin)
        if at <= 0:
            # Not in the first half, which would leave the line nearly empty. A hard break is the
            # last resort.
            at = _sign(begin, least=max(1, len(begin) // 2)) or max(1, len(begin))
        lines.append(text[:at].rstrip())
        text = text[at:].lstrip()
    return [*lines, text]


def _sign(begin: str, *, least: int) -> int:
    """Where to break behind the last sign; 0 where there is none after the first half."""
    return next((at for at in range(len(begin), least, -1) if begin[at - 1] in _BREAKS), 0)


def _widths(
    table: Table, cells: Sequence[tuple[str, ...]], is_number: Sequence[bool], room: int
) -> list[int] | None:
    """Of each column, so that all fit into the room; None when they cannot."""
    names = table.columns
    widths = [
        max(map(columns, (names[at], *(row[at] for row in cells)))) for at in range(len(names))
    ]
    whole = names.index(table.kept_whole) if table.kept_whole else -1
    # First with one column kept whole, then without: a folded id cannot be copied.
    for spared in (whole, -1):
        least = [
            size
            if is_number[at] or at == spared
            else max(columns(names[at]), *(_least(row[at]) for row in cells), 1)
            for at, size in enumerate(widths)
        ]
        if sum(least) <= room:
            break
    else:
        return widths if all(is_number) else None
    fitting = list(widths)
    while sum(fitting) > room:
        widest = max(
            (at for at in range(len(names)) if fitting[at] > least[at]), key=fitting.__getitem__
        )
        # One character at a time, so that the widest columns end about equally wide.
        fitting[widest] -= 1
    return fitting


def _least(cell: str) -> int:
    """Columns that a cell needs at least."""
    if " " in cell:
        return max(min(columns(word), LONGEST_WORD) for word in cell.split(" "))
    size = columns(cell)
    # What is broken behind a sign needs a little more than half.
    return size if size <= LONGEST_WORD // 2 else min(size, size // MOST_LINES + LONGEST_WORD // 3)


def _as_lists(names: Sequence[str], cells: Sequence[tuple[str, ...]], width: int) -> list[str]:
    """A line for each column of each row, and a blank one between rows."""
    before = max(map(columns, names))
    room = width - before - len(GAP)
    lines: list[str] = []
    for row in cells:
        if lines:
            lines.append("")
        for name, cell in zip(names, row, strict=True):
            for title, part in zip_longest((name,), folded(cell, room), fillvalue=""):
                lines.append((_padded(title, before, at_left=False) + GAP + part).rstrip())
    return lines


def tab_separated(table: Table, *, named: bool = False) -> list[str]:
    """A line for each row, without the columns' names; empty for None.

    Args:
        table: The rows.
        named: Begin each line with the table's name.
    """
    before = (table.name,) if named else ()
    return ["\t".join(map(_plain, (*before, *row))) for row in table.rows]


def _columns_of(char: str) -> int:
    # Control characters such as joiners have no width either.
    if unicodedata.combining(char) or unicodedata.category(char) in ("Cf", "Me", "Mn"):
        return 0
    # Characters of ambiguous width count as narrow, as terminals outside of East Asian locales show
    # them.
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
    # Without thousands separators, which programs would have to remove.
    return f"{cell:g}" if isinstance(cell, float) else _one_line(str(cell))


def _one_line(text: str) -> str:
    """Without what would break a row: an id or a key may hold any character."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)
