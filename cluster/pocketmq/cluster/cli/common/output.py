"""`-o`: what every command that lists something does with its rows and facts."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

import typer

from pocketmq.cluster.cli.common.tables import Table, laid_out, tab_separated

OutputFormat = Literal["table", "tsv", "json"]

Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output",
        "-o",
        help="How to print.",
        show_default="table; tsv into a pipe or file",
    ),
]

Sentences = Annotated[
    OutputFormat | None,
    typer.Option("--output", "-o", help="How to print.", show_default="sentences"),
]
"""Of commands that do something and say so, or explain step by step."""

NARROWEST: Final = 80
"""Columns for which tables are made where the terminal is narrower or unknown."""


def show(
    output: OutputFormat | None,
    facts: Any,
    *tables: Table,
    heading: str = "",
    summary: Table | None = None,
) -> None:
    """Print facts as JSON, or tables as text.

    Args:
        output: What `-o` says.
        facts: The same as a value for JSON.
        tables: Empty ones are left out. Several are told apart by their names. If all are empty,
            a line on standard error says that there is none of the first.
        heading: A line before the tables, for people.
        summary: What the heading says, as rows for tab-separated output.
    """
    if output == "json":
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    filled = [table for table in tables if table.rows]
    is_tsv = (output or _default()) == "tsv"
    # If all is empty, the heading is enough for people, and the summary's row for programs.
    if tables and not filled and (summary is None if is_tsv else not heading):
        _tell_nothing(tables[0].name)
    # Programs get the summary as a row; people get it as the heading.
    if is_tsv:
        for table in filled if summary is None else (summary, *filled):
            for line in tab_separated(table, named=len(tables) > 1):
                typer.echo(line)
        return
    if heading:
        typer.echo(heading)
    for at, table in enumerate(filled):
        if at or heading:
            typer.echo("")
        layout = laid_out(table, width())
        if layout.head is not None:
            typer.echo(_bold(layout.head))
        for line in layout.lines:
            typer.echo(line)


def is_table(output: OutputFormat | None) -> bool:
    """Whether `show` makes tables for people, who can also be shown bars and hints."""
    return (output or _default()) == "table"


def show_names(output: OutputFormat | None, names: list[str], kind: str) -> None:
    """Print names of a kind, such as topics: one a line, or a JSON list."""
    if output == "json":
        typer.echo(json.dumps(names, indent=2, ensure_ascii=False))
        return
    if not names:
        _tell_nothing(kind)
    for name in names:
        typer.echo(name)


def tell(output: OutputFormat | None, facts: Any, *sentences: str) -> None:
    """Print what a command did: as JSON, or in words, a line each."""
    if output == "json":
        typer.echo(json.dumps(facts, indent=2, ensure_ascii=False))
        return
    for line in sentences:
        typer.echo(line)


def show_one(output: OutputFormat | None, facts: Any, line: Callable[[], str]) -> None:
    """Print one of a stream of facts, as an object on a line of its own or as a line of text."""
    text = json.dumps(facts, ensure_ascii=False) if output == "json" else line()
    # Flushed: the reader may be a pipe, and the next fact may come much later.
    print(text, flush=True)


def width() -> int:
    """Columns of the terminal, 80 at least; COLUMNS overrides."""
    return max(NARROWEST, shutil.get_terminal_size((NARROWEST, 24)).columns)


def _tell_nothing(kind: str) -> None:
    """Say that the answer is nothing; a pipe gets no line that is none of its rows."""
    typer.echo(f"pocketmq: there is no {kind}", err=True)


def _default() -> OutputFormat:
    return "table" if sys.stdout.isatty() else "tsv"


def _bold(line: str) -> str:
    # As no-color.org says, and for terminals without control sequences.
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return line
    return f"\x1b[1m{line}\x1b[0m"
