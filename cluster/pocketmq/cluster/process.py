"""One child process: start, readiness, stop, kill, freeze, its log.

A child gets its own session, so that Ctrl-C at the terminal reaches the supervisor alone, which
then stops its children in order. A supervisor that dies takes its children with it: the roles watch
their parent (`--exit-with-parent`).
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil
import structlog

from pocketmq.cluster.errors import ProcessStartError, WrongStateError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import PARENT_PID, parse_ready_line

log = structlog.get_logger()

READY_LIMIT_S = 30.0
"""Real seconds from start to the ready line; a broker may have a store to recover."""

STOP_LIMIT_S = 10.0
"""Real seconds between SIGTERM and SIGKILL."""

_FREEZE_LIMIT_S = 5.0
_FREEZE_LOOK_S = 0.002
_LINE_LIMIT_BYTES = 1 << 20

OnLine = Callable[[str], None]


class State(enum.Enum):
    """What a child is doing."""

    NEW = "not started"
    STARTING = "starting"
    READY = "running"
    FROZEN = "frozen"
    ENDED = "ended"


class ChildProcess:
    """A process that says READY on standard output and logs to standard error.

    Args:
        name: For people, and for its log file.
        role: `nameserver`, `broker` or `client`.
        command: What to execute; may be changed between an end and the next start.
        log_path: Standard error is appended here, and what it prints after the ready line unless
            `on_line` takes it.
        env: Added to this process's environment.
        on_line: Gets each line of standard output after the ready line.
    """

    def __init__(
        self,
        name: str,
        role: str,
        command: Sequence[str],
        *,
        log_path: Path,
        env: Mapping[str, str] | None = None,
        on_line: OnLine | None = None,
    ) -> None:
        self.name = name
        self.role = role
        self.command = list(command)
        self.log_path = log_path
        self.facts: dict[str, str] = {}
        """What the ready line said."""
        self.started_at_s = 0.0
        """Monotonic seconds of the latest start."""
        self.ready_after_s = 0.0
        self.expected_end = False
        """Whether we ended it: an end without this is news."""
        self._env = dict(env or {})
        self._on_line = on_line
        self._clock = SystemClock()  # processes live in real time, whatever their clocks say
        self._process: asyncio.subprocess.Process | None = None
        self._frozen = False
        self._ready: asyncio.Future[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._log: IO[bytes] | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.value} pid={self.pid}>"

    # -- reading ----------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """What it is doing, as far as we know."""
        if self._process is None:
            return State.NEW
        if self._process.returncode is not None:
            return State.ENDED
        if self._frozen:
            return State.FROZEN
        return State.READY if self.facts else State.STARTING

    @property
    def is_alive(self) -> bool:
        """Whether the process exists; a frozen one does."""
        return self.state in (State.STARTING, State.READY, State.FROZEN)

    @property
    def pid(self) -> int:
        """Process id of the latest start; 0 before."""
        return self._process.pid if self._process is not None else 0

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.returncode if self._process is not None else None

    @property
    def port(self) -> int:
        """Port of the ready line; 0 if it listens nowhere."""
        return int(self.facts.get("port", "0"))

    @property
    def address(self) -> str:
        """`host:port` that it answers on; empty if it listens nowhere."""
        return f"{self.facts.get('host', '127.0.0.1')}:{self.port}" if self.port else ""

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of its log."""
        try:
            with self.log_path.open("rb") as file:
                last = deque(file, maxlen=lines)
        except FileNotFoundError:
            return ""
        return b"".join(last).decode("utf-8", "replace")

    # -- steering ---------------------------------------------------------------------------

    async def start(self, *, limit_s: float = READY_LIMIT_S) -> None:
        """Start it and return when it has said READY.

        A start that fails, or is cancelled, leaves no process behind.

        Raises:
            ProcessStartError: It ended first, or was silent for `limit_s` real seconds.
            WrongStateError: It runs already.
        """
        if self.is_alive:
            raise WrongStateError(self.name, "start", self.state.value)
        self.facts = {}
        self._frozen = False
        self.expected_end = False
        self.started_at_s = self._clock.monotonic()
        self._log = self._open_log()
        self._ready = asyncio.get_running_loop().create_future()
        self._process = await asyncio.create_subprocess_exec(
            *self.command,
            stdin=asyncio.subprocess.DEVNULL
            if sys.platform == "linux"
            else asyncio.subprocess.PIPE,  # its end tells the child that we died
            stdout=asyncio.subprocess.PIPE,
            stderr=self._log,
            env=os.environ | {PARENT_PID: str(os.getpid())} | self._env,
            start_new_session=True,
            limit=_LINE_LIMIT_BYTES,
        )
        self._reader = asyncio.get_running_loop().create_task(
            self._read(self._process, self._log), name=f"output of {self.name}"
        )
        try:
            async with self._clock.timeout(limit_s):
                await asyncio.wait([self._ready, self._reader], return_when="FIRST_COMPLETED")
        except TimeoutError:
            await self.kill()
            raise self._start_error(None) from None
        except BaseException:
            await self.kill()
            raise
        if not self.facts:
            await self.kill()
            raise self._start_error(self.status)
        self.ready_after_s = self._clock.monotonic() - self.started_at_s
        log.debug("process.started", process=self.name, pid=self.pid, port=self.port)

    async def stop(self, *, limit_s: float = STOP_LIMIT_S) -> int | None:
        """Ask it to stop (SIGTERM), and kill it if it does not; its exit status."""
        self.expected_end = True
        if self._process is not None and self._process.returncode is None:
            # A frozen process gets its SIGTERM only once it runs again.
            self._signal(signal.SIGTERM)
            self._signal(signal.SIGCONT)
            self._frozen = False
            try:
                async with self._clock.timeout(limit_s):
                    await self._process.wait()
            except TimeoutError:
                log.warning("process.overstayed", process=self.name, pid=self.pid, limit_s=limit_s)
                self._signal(signal.SIGKILL)
        return await self.wait()

    async def kill(self) -> None:
        """End it at once, as a crash would (SIGKILL), and wait until it is gone."""
        self.expected_end = True
        self._signal(signal.SIGKILL)
        await self.wait()

    async def freeze(self) -> None:
        """Stop it in mid-step (SIGSTOP); its connections stay up. Returns when it stands still."""
        if self.state is not State.READY:
            raise WrongStateError(self.name, "freeze", self.state.value)
        self._signal(signal.SIGSTOP)
        self._frozen = True
        async with self._clock.timeout(_FREEZE_LIMIT_S):
            while self.is_alive and psutil.Process(self.pid).status() != psutil.STATUS_STOPPED:
                await self._clock.sleep(_FREEZE_LOOK_S)

    def thaw(self) -> None:
        """Let a frozen process go on (SIGCONT)."""
        if self.state is not State.FROZEN:
            raise WrongStateError(self.name, "thaw", self.state.value)
        self._frozen = False
        self._signal(signal.SIGCONT)

    async def wait(self) -> int | None:
        """Return its exit status when it has ended and all its output was read."""
        if self._process is None:
            return None
        status = await self._process.wait()
        if self._reader is not None:
            await asyncio.wait([self._reader])
        if self._log is not None:
            self._log.close()
            self._log = None
        return status

    # -- inside -----------------------------------------------------------------------------

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _open_log(self) -> IO[bytes]:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        return self.log_path.open("ab", buffering=0)

    async def _read(self, process: asyncio.subprocess.Process, output: IO[bytes]) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            text = line.decode("utf-8", "replace").rstrip("\n")
            if not self.facts and (facts := parse_ready_line(text)) is not None:
                self.facts = facts
                if self._ready is not None and not self._ready.done():
                    self._ready.set_result(None)
            elif self._on_line is not None:
                self._on_line(text)
            else:
                output.write(line)

    def _start_error(self, status: int | None) -> ProcessStartError:
        return ProcessStartError(self.name, status, self.log_tail(1).strip(), self.log_path)
