"""Who reads a command's output: `pocketmq consume ... | head -2` ends when `head` does."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import Coroutine
from typing import Any

from pocketmq.runtime.logs import go_nowhere


async def while_read(printing: Coroutine[Any, Any, None]) -> None:
    """Run what prints, and end it when the reader of a pipe has closed it.

    Without this a command that waits for messages would notice it at the next one only. What it
    prints afterwards goes nowhere. Elsewhere than on Linux the next write tells.
    """
    output = _pipe()
    if output is None:
        await printing
        return
    loop, work = asyncio.get_running_loop(), asyncio.ensure_future(printing)
    has_left = False

    def left() -> None:
        nonlocal has_left
        has_left = True
        # The descriptor stays readable, so the loop would call this again and again.
        loop.remove_reader(output)
        work.cancel()

    # Nothing can be read at this end of the pipe: what the loop tells is that the other is closed.
    loop.add_reader(output, left)
    try:
        await work
    except asyncio.CancelledError:
        # Cancelled by something else, such as Ctrl-C, which must not look like a normal end.
        if not has_left:
            raise
        # Otherwise Python's own flush at exit would fail on the closed pipe, and print the error.
        go_nowhere(sys.stdout)
    finally:
        loop.remove_reader(output)


def _pipe() -> int | None:
    """The descriptor of standard output, if it is a pipe and the loop tells when it is closed."""
    try:
        output = sys.stdout.fileno()
    except OSError:  # a program has put something else in its place
        return None
    is_pipe = sys.platform == "linux" and stat.S_ISFIFO(os.fstat(output).st_mode)
    return output if is_pipe else None
