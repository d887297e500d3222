"""Shows users of Spark an error's message without the traceback through PocketMQ's code.

Spark prints a worker's whole traceback. For a `PocketMQError`, such as a wrong option, it is cut
off. Any other exception keeps its traceback, because it is a bug.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from pocketmq.pipeline.errors import JobError
from pocketmq.runtime.errors import PocketMQError

P = ParamSpec("P")
T = TypeVar("T")


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a method that Spark calls: a `PocketMQError` leaves it without its traceback."""

    @wraps(method)
    def called(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return method(*arguments, **named)
        except PocketMQError as exc:
            # `from None`: otherwise Spark would print the cause with its traceback.
            raise exc.with_traceback(None) from None

    return called


def rows_plainly(rows: Iterator[Any]) -> Iterator[Any]:
    """Wrap rows that Spark iterates over in the same way."""
    try:
        yield from rows
    except PocketMQError as exc:
        raise exc.with_traceback(None) from None


def leave_quietly() -> None:
    """In `stop` of a stream's reader: end this process without a traceback if Spark is gone.

    A query that is stopped closes its connection to the process. Spark's code there takes the end
    of what it reads for an error and writes it to the closed connection; the error of that would be
    on the user's screen.
    """
    # Only for such an error: all others keep Python's own hook.
    if isinstance(sys.exception(), (EOFError, ConnectionError)):
        sys.excepthook = _told_unless_closed


def _told_unless_closed(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not isinstance(error, ConnectionError):
        sys.__excepthook__(kind, error, trace)


def told_by_spark(error: Exception) -> PocketMQError:
    """A query's error in one line: the PocketMQ error inside Spark's, or Spark's first line."""
    if isinstance(error, PocketMQError):
        return error
    # Spark's message contains the worker's traceback as text, whose last line is the error.
    ours = re.findall(r"^pocketmq\.[\w.]+: (.+)$", str(error), re.MULTILINE)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # Java's error is in the next line.
    if lines[0].startswith("An error occurred while calling ") and len(lines) > 1:
        lines = [lines[1].removeprefix(": ")]
    return JobError(ours[-1] if ours else lines[0])
