"""Shows the progress of the demo: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from pocketmq.runtime.clock import SystemClock

PLAIN_STEPS = 10
"""Number of plain progress lines in a run."""


class Display(Protocol):
    """Shows events and progress."""

    def say(self, text: str) -> None:
        """Show an event."""

    def progress(self, sent: int, consumed: int) -> None:
        """Show the progress; called several times a second."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class PlainDisplay:
    """Prints a line per event and per tenth consumed, with the seconds since the start."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._shown = 0
        self._clock = SystemClock()
        self._began_at = self._clock.monotonic()

    def say(self, text: str) -> None:
        elapsed = self._clock.monotonic() - self._began_at
        self._console.print(f"{elapsed:6.1f} s  {text}", highlight=False, soft_wrap=True)

    def progress(self, sent: int, consumed: int) -> None:
        # One line for each step of the total, whatever its size; `max` avoids a division by zero.
        step = consumed * PLAIN_STEPS // max(1, self._total)
        if step > self._shown:
            self._shown = step
            self.say(f"{consumed:,} of {self._total:,} consumed, {sent:,} sent")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to clean up."""


class LiveDisplay:
    """Shows two bars below the lines of events."""

    def __init__(self, console: Console, total: int) -> None:
        self._bars = Progress(
            TextColumn("{task.description:9}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]:>14}"),
            TimeElapsedColumn(),
            console=console,
            auto_refresh=False,  # would start a thread; progress() is called often enough
        )
        self._sent = self._bars.add_task("sent", total=total, rate="")
        self._consumed = self._bars.add_task("consumed", total=total, rate="")

    def say(self, text: str) -> None:
        self._bars.console.print(text, highlight=False, soft_wrap=True)

    def progress(self, sent: int, consumed: int) -> None:
        for task, count in ((self._sent, sent), (self._consumed, consumed)):
            speed = self._bars.tasks[task].speed
            rate = f"{speed:,.0f} msg/s" if speed else ""
            self._bars.update(task, completed=count, rate=rate)
        self._bars.refresh()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the bars as they are and restore the terminal."""
        self._bars.stop()


def display_for(console: Console, total: int) -> Display:
    """Bars on a terminal, lines elsewhere."""
    if console.is_terminal:
        return LiveDisplay(console, total)
    return PlainDisplay(console, total)
