"""Errors as users see them in Spark: the message, and not the way through our code.

Spark prints a worker's whole traceback. An error of ours stands alone; how it came about concerns
nobody who gave a wrong option. Any other exception keeps its traceback: that is a bug.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from pocketmq.pipeline.errors import JobError
from pocketmq.runtime.errors import PocketMQError

P = ParamSpec("P")
T = TypeVar("T")


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """A method that Spark calls, with its errors bare."""

    @wraps(method)
    def called(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return method(*arguments, **named)
        except PocketMQError as exc:
            raise exc.with_traceback(None) from None

    return called


def rows_plainly(rows: Iterator[Any]) -> Iterator[Any]:
    """Rows that Spark iterates over, the same way."""
    try:
        yield from rows
    except PocketMQError as exc:
        raise exc.with_traceback(None) from None


def told_by_spark(error: Exception) -> PocketMQError:
    """What went wrong in a query, in one line: our own error inside Spark's, or its first line."""
    if isinstance(error, PocketMQError):
        return error
    ours = re.findall(r"^pocketmq\.[\w.]+: (.+)$", str(error), re.MULTILINE)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return JobError(ours[-1] if ours else lines[0])
