"""A command that goes on in the background once it has said what it has to say."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil

from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.process import EXIT_CRASHED, report

READY_WORD = b"NAMESRV_ADDR="
"""What the first line begins with that a process prints when it is ready."""

_LOOK_S = 0.2


def in_background(run: Callable[[], int]) -> int:
    """Run something in a process of its own; returns when that is ready, or has ended.

    What it prints until it calls `leave_terminal` is printed here. Call this before the process
    has a thread or an event loop: it forks.

    Returns:
        0 when it is ready; else its exit status.
    """
    # Unwritten text would be in both processes after the fork, and be printed twice.
    sys.stdout.flush()
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _run_apart(run, write_end)
    # Else the loop below would never end: this process itself would hold an end for writing.
    os.close(write_end)
    is_ready = False
    try:
        with os.fdopen(read_end, "rb") as told:
            # The pipe ends when `leave_terminal` has put a file in its place, or the process has
            # ended.
            for line in told:
                is_ready = is_ready or line.startswith(READY_WORD)
                sys.stdout.buffer.write(line)
                sys.stdout.flush()
        if is_ready:
            return 0
        # Only here: one that is ready goes on, and this command ends before it.
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except KeyboardInterrupt:
        # `setsid` took the child out of the terminal's group, so Ctrl-C has not reached it.
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        return 130


def leave_terminal(log_path: Path) -> None:
    """Let standard output and error go to a file; whoever waits for their end goes on."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    # Only its owner may read it: lines of a log may name keys and addresses.
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sys.stdout.flush()
    for standard in (1, 2):
        # The last copy of the pipe's end is gone then, which lets the waiting command end.
        os.dup2(log, standard)
    os.close(log)


async def until_gone(pid: int) -> None:
    """Return when a process that is no child of this one has ended."""
    clock = SystemClock()
    try:
        process = psutil.Process(pid)
        # psutil takes a zombie for a running process, and one whose parent never waits stays a
        # zombie.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            await clock.sleep(_LOOK_S)
    except psutil.NoSuchProcess:
        return


def _run_apart(run: Callable[[], int], output: int) -> None:
    """The new process's life; does not return."""
    # What is left when something else than a `PocketMQError` ends it.
    status = EXIT_CRASHED
    try:
        os.setsid()  # Ctrl-C at the terminal is not for it
        nothing = os.open(os.devnull, os.O_RDONLY)
        # It is out of the terminal's session, so there is nobody to read from.
        os.dup2(nothing, 0)
        os.dup2(output, 1)
        os.close(nothing)
        os.close(output)
        status = run()
    except PocketMQError as exc:
        status = report(exc, "pocketmq")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Without the end of Python: buffers and exit handlers belong to the process that was
        # forked.
        os._exit(status)
