"""Ctrl-C while a program is still being imported: it ends quietly with status 130.

    from pocketmq.runtime.interrupts import end_quietly    # before any other import
    end_quietly()

Importing a program takes some tenths of a second. Python's own answer to Ctrl-C in that time is
the traceback of whichever import was just running.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

STATUS = 128 + signal.SIGINT
"""What a shell shows for a program that Ctrl-C ended."""


def end_quietly() -> None:
    """From now on, Ctrl-C ends the process at once. For the time in which nothing is running yet.

    A Ctrl-C that the process was started to ignore (`nohup`, `&` in a script) stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)


def interrupt_again() -> None:
    """From now on, Ctrl-C raises `KeyboardInterrupt` again, as Python has it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(STATUS)
