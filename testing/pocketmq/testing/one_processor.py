"""Keeps the threads that take turns while clocks move on one processor.

All roles of a test's process share the interpreter's lock, so only one of their loops runs at a
time; in an idle hour they hand over some ten thousand times. On a machine that is otherwise idle
each handover to another processor has to wake that processor, which takes longer than the work that
is handed over: an idle hour costs nearly twice as much there. So all of them move to the processor
on which whoever moves the clocks is running just now, and are set free afterwards.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pocketmq.runtime.loop_thread import LoopRunner


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep the loops of roles and clients on one processor during the block (Linux).

    Threads that others have started stay free, but for the main thread, whose loop often has the
    clients. Where the system does not allow it, nothing changes.
    """
    if sys.platform != "linux":
        yield
        return
    # `os` has no `sched_getcpu`, but the C library has.
    here = ctypes.CDLL(None).sched_getcpu()
    free = os.sched_getaffinity(0)
    before = _keep_on(here)
    try:
        yield
    finally:
        # All threads, not only the bound ones: on Linux a new thread inherits its starter's
        # processors.
        for thread in threading.enumerate():
            thread_id = thread.native_id
            if thread_id is None:
                continue
            if thread_id in before:
                _allow(thread_id, before[thread_id])
            # A thread that has chosen other processors meanwhile keeps them.
            elif before and _allowed(thread_id) == {here}:
                _allow(thread_id, free)  # one of them has started it meanwhile


def _keep_on(processor: int) -> dict[int, set[int]]:
    """Thread ids of the system -> where they were allowed to run before."""
    found: dict[int, set[int]] = {}
    for thread in threading.enumerate():
        thread_id = thread.native_id
        is_ours = isinstance(thread, LoopRunner) or thread is threading.main_thread()
        if thread_id is None or not is_ours:
            continue
        before = _allowed(thread_id)
        # A thread that its owner bound to one processor, or kept off this one, stays as it is.
        if processor in before and len(before) > 1 and _allow(thread_id, {processor}):
            found[thread_id] = before
    return found


def _allowed(thread_id: int) -> set[int]:
    try:
        return os.sched_getaffinity(thread_id)
    except OSError:  # it has ended
        return set()


def _allow(thread_id: int, processors: set[int]) -> bool:
    try:
        os.sched_setaffinity(thread_id, processors)
    except OSError:  # it has ended, or the system forbids it
        return False
    return True
