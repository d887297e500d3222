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
    # After the fork both processes would have the unwritten text, and print it twice.
    sys.stdout.flush()
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        _run_apart(run, write_end)
    # Otherwise the loop below would never end: this process too would keep the pipe open.
    os.close(write_end)
    is_ready = False
    try:
        with os.fdopen(read_end, "rb") as told:
            # The pipe ends when `leave_terminal` has replaced it by a file, or the process has
            # ended.
            for line in told:
                is_ready = is_ready or line.startswith(READY_WORD)
                sys.stdout.buffer.write(line)
                sys.stdout.flush()
        if is_ready:
            return 0
        # Only if it has ended: a process that is ready outlives this command.
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except KeyboardInterrupt:
        # Ctrl-C has not reached the child, as `setsid` took it out of the terminal's group.
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        return 130


def leave_terminal(log_path: Path) -> None:
    """Let standard output and error go to a file; whoever waits for their end goes on."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    # Readable by the owner only: log lines may contain keys and addresses.
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    sys.stdout.flush()
    for standard in (1, 2):
        # This closes the last copy of the pipe's end, so that the waiting command can end.
        os.dup2(log, standard)
    os.close(log)


async def until_gone(pid: int) -> None:
    """Return when a process that is no child of this one has ended."""
    clock = SystemClock()
    try:
        process = psutil.Process(pid)
        # psutil counts a zombie as running, and a zombie whose parent never waits for it stays.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            await clock.sleep(_LOOK_S)
    except psutil.NoSuchProcess:
        return


def _run_apart(run: Callable[[], int], output: int) -> None:
    """The new process's life; does not return."""
    # The status after any error but a `PocketMQError`.
    status = EXIT_CRASHED
    try:
        os.setsid()  # Ctrl-C at the terminal is not for it
        nothing = os.open(os.devnull, os.O_RDONLY)
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
        # Without Python's own exit: buffers and exit handlers belong to the parent process.
        os._exit(status)
