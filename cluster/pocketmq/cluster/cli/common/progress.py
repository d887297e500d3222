"""A progress bar on standard error, for commands that handle many messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHOWN_EACH = 100
"""Messages between two changes of the bar."""


@contextmanager
def counting(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Shows how many are done; without a terminal it shows nothing.

    Args:
        what: Stands before the bar.
        total: How many there are; None if nobody knows.

    Returns:
        Take the number that is done.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    # With FORCE_COLOR set, Rich would draw the bar even into a log.
    console = Console(stderr=True, force_terminal=sys.stderr.isatty())
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        console=console, transient=True, auto_refresh=False, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task(what, total=total)

        def tell(done: int) -> None:
            # Each update draws the whole line, which takes longer than a message.
            if done % SHOWN_EACH == 0 or done == total:
                bar.update(task, completed=done, refresh=True)

        yield tell
