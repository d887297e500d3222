"""A forked role as its supervisor has it: like `asyncio.subprocess.Process`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

import structlog

log = structlog.get_logger()

LOST_STATUS = 255
"""Of a process that something else in this program has waited for; asyncio says so too."""


class ForkedProcess:
    """A child of this process. Make it inside the running loop.

    Args:
        pid: Its process id.
        stdout: What it prints.

    Raises:
        OSError: No descriptor is left; then the process is killed.
    """

    def __init__(self, pid: int, stdout: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdout = stdout
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        try:
            self._descriptor = os.pidfd_open(pid)
        except OSError:
            # It is already a child of this process, and nothing else would end it.
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        # A pidfd becomes readable when the process ends, so no signal handler or thread is needed.
        self._loop.add_reader(self._descriptor, self._reap)

    @property
    def returncode(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self) -> int:
        """Wait until it has ended; its exit status."""
        # Shielded: several tasks may wait, and the cancellation of one must not affect the others.
        return await asyncio.shield(self._ended)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal; it may have ended."""
        if not self._ended.done():
            # Until the loop reaps it, the pid belongs to its zombie, so no other process can be
            # hit.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def _reap(self) -> None:
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            log.warning("process.reaped_elsewhere", pid=self.pid)
            pid, found = self.pid, LOST_STATUS
        else:
            found = os.waitstatus_to_exitcode(status)
        # A pid of 0 means that it has not ended yet.
        if pid:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._ended.set_result(found)
