"""One child process: start, readiness, stop, kill, freeze, its log.

A role is forked from a process that has imported its modules, where that can be done, and else
executed (`forking/`). A child gets its own session, so that Ctrl-C at the terminal reaches only the
supervisor, which then stops its children in order. If the supervisor dies, its children stop
too: they watch their parent (`--exit-with-parent`).
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil
import structlog

from pocketmq.cluster.errors import ProcessStartError, WrongStateError
from pocketmq.cluster.forking.launch import Running, launch
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.process import PARENT_PID, parse_ready_line

log = structlog.get_logger()

READY_LIMIT_S = 90.0
"""Real seconds from start to the ready line at most; a broker may have to recover a store."""

STOP_LIMIT_S = 30.0
"""Real seconds between SIGTERM and SIGKILL."""

_FREEZE_LIMIT_S = 30.0
_FREEZE_LOOK_S = 0.002

OnLine = Callable[[str], None]


class State(enum.Enum):
    """The state of a child process."""

    NEW = "not started"
    STARTING = "starting"
    READY = "running"
    FROZEN = "frozen"
    ENDED = "ended"


class ChildProcess:
    """A process that says READY on standard output and logs to standard error.

    Args:
        name: Its name in output and of its log file.
        role: `nameserver`, `broker` or `client`.
        command: Its command line; may be changed while it does not run.
        log_path: Its standard error is appended here; without `on_line` also its standard output
            after the ready line.
        env: Added to this process's environment.
        on_line: Called with each line of standard output after the ready line.
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
        """The fields of its ready line."""
        self.started_at_s = 0.0
        """Monotonic seconds of the latest start."""
        self.ready_after_s = 0.0
        self.expected_end = False
        """Whether it was asked to end; otherwise its end is an error."""
        self._env = dict(env or {})
        self._on_line = on_line
        self._clock = SystemClock()  # time limits are real time, even beside manual clocks
        self._process: Running | None = None
        self._frozen = False
        self._is_asked_to_stop = False
        self._ready: asyncio.Future[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        self._log: IO[bytes] | None = None

    def __repr__(self) -> str:
        return f"<{self.name} {self.state.value} pid={self.pid}>"

    # -- reading ----------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """Its state as far as it is known here."""
        if self._process is None:
            return State.NEW
        if self._process.returncode is not None:
            return State.ENDED
        if self._frozen:
            return State.FROZEN
        # A process that has printed its READY line can be asked.
        return State.READY if self.facts else State.STARTING

    @property
    def is_alive(self) -> bool:
        """Whether the process exists; a frozen one does."""
        return self.state in (State.STARTING, State.READY, State.FROZEN)

    @property
    def pid(self) -> int:
        """Process id of the latest start; 0 before the first."""
        return self._process.pid if self._process is not None else 0

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None while it runs."""
        return self._process.returncode if self._process is not None else None

    @property
    def port(self) -> int:
        """Port of the ready line; 0 if it does not listen."""
        return int(self.facts.get("port", "0"))

    @property
    def address(self) -> str:
        """`host:port` on which it listens; empty if it does not."""
        return address_text(self.facts.get("host", "127.0.0.1"), self.port) if self.port else ""

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
        """Start it; returns when it has printed its ready line.

        A start that fails, or is cancelled, leaves no process behind.

        Raises:
            DiskError: Its log cannot be written.
            ProcessStartError: It ended first, or printed none within `limit_s` real seconds.
            WrongStateError: It runs already.
        """
        if self.is_alive:
            raise WrongStateError(self.name, "start", self.state.value)
        self.facts = {}
        self._frozen = self._is_asked_to_stop = False
        self.expected_end = False
        # Before the log and the launch, whose time belongs to the start.
        self.started_at_s = self._clock.monotonic()
        self._log = self._open_log()
        self._ready = asyncio.get_running_loop().create_future()
        # With `--exit-with-parent` a role checks whether this process is still its parent.
        env = os.environ | {PARENT_PID: str(os.getpid())} | self._env
        try:
            self._process = await launch(self.command, env, self._log)
        except BaseException:
            # Closed here, since without a process no reader closes it.
            self._log.close()
            raise
        self._reader = asyncio.get_running_loop().create_task(
            self._read(self._process, self._log), name=f"output of {self.name}"
        )
        try:
            async with self._clock.timeout(limit_s):
                # Either the READY line or the end of the output, so that a process that dies is
                # noticed at once.
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
        """Ask it to stop (SIGTERM), kill it after `limit_s`; returns its exit status.

        It is asked once, however often this is called: a role ends at once when it is asked again.
        """
        self.expected_end = True
        if self._process is not None and self._process.returncode is None:
            # A frozen process handles SIGTERM only once it is resumed.
            # A role takes a second SIGTERM for "at once", and would not flush.
            if not self._is_asked_to_stop:
                self._is_asked_to_stop = True
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
        """End it at once, like a crash (SIGKILL); returns when it has ended."""
        self.expected_end = True
        self._signal(signal.SIGKILL)
        await self.wait()

    async def freeze(self) -> None:
        """Suspend it (SIGSTOP); its connections stay up. Returns when it is suspended."""
        if self.state is not State.READY:
            raise WrongStateError(self.name, "freeze", self.state.value)
        self._signal(signal.SIGSTOP)
        self._frozen = True
        async with self._clock.timeout(_FREEZE_LIMIT_S):
            # The signal takes effect a little later, but after `freeze` nothing more may come from
            # the role.
            while self.is_alive and psutil.Process(self.pid).status() != psutil.STATUS_STOPPED:
                await self._clock.sleep(_FREEZE_LOOK_S)

    def thaw(self) -> None:
        """Resume a frozen process (SIGCONT)."""
        if self.state is not State.FROZEN:
            raise WrongStateError(self.name, "thaw", self.state.value)
        self._frozen = False
        self._signal(signal.SIGCONT)

    async def wait(self) -> int | None:
        """Wait until it has ended and its output was read; returns its exit status."""
        if self._process is None:
            return None
        status = await self._process.wait()
        if self._reader is not None:
            # The pipe may still hold lines, and the last ones say why the process ended.
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
        try:
            self.log_path.parent.mkdir(parents=True, exist_ok=True)
            return self.log_path.open("ab", buffering=0)
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise DiskError(self.log_path, reason, advice="choose another data folder") from exc

    async def _read(self, process: Running, output: IO[bytes]) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            text = line.decode("utf-8", "replace").rstrip("\n")
            # Only before it is ready: later the same text may come from a message.
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
