"""Signals of the operating system, heard on the event loop once for each time they came.

    call_on_signal(loop, signal.SIGTERM, context.request_stop, "SIGTERM")

`loop.add_signal_handler` alone is not enough where a second signal means something else than the
first one: uvloop learns of a signal from its pipe and from Python's own handler, and calls back for
each of them when a signal comes while another one is being handled. A role that was asked once to
stop then ended at once, as if it had been asked twice.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType
from typing import TypeVarTuple

Ts = TypeVarTuple("Ts")


def call_on_signal(
    loop: asyncio.AbstractEventLoop,
    number: signal.Signals,
    callback: Callable[[*Ts], object],
    *args: *Ts,
) -> None:
    """From now on, call back on the loop when the signal comes; from the main thread only.

    Nobody hears a signal that comes when the loop is closed.
    """

    def heard(_number: int, _frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(callback, *args)

    loop.add_signal_handler(number, _nothing)  # so that the signal wakes the loop
    signal.signal(number, heard)
    signal.siginterrupt(number, False)


def _nothing() -> None:
    """Python's own handler, which runs once for each signal, has called back already."""
