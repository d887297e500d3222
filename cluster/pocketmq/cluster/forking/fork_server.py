"""The fork server of this process, from outside: starts it, and asks it for roles."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

import structlog

from pocketmq.cluster.forking.adoption import ADOPTION
from pocketmq.cluster.forking.command_line import ROOM
from pocketmq.cluster.forking.request import (
    BROKER,
    GO,
    IMPORTS,
    NAMESERVER,
    ForkRefusedError,
    ForkRequest,
)
from pocketmq.runtime.clock import SystemClock

log = structlog.get_logger()

SWITCH = "POCKETMQ_FORK_SERVER"
"""0 in the environment: every role is executed, none is forked."""

ANSWER_LIMIT_S = 60.0
"""Real seconds; the server may still be importing what the role needs."""

_STOP_LIMIT_S = 30.0
_ANSWER_BYTES = 4096
_INTERPRETER = ("PYTHON", "LD_", "LC_", "LANG", "COVERAGE_", "MALLOC_", "GLIBC_")
"""Begins the names of variables that count when an interpreter starts, and not later."""


class ForkServer:
    """One fork server; it ends with this process, or when it is closed.

    Raises:
        OSError: The system forbids something that it needs.
    """

    def __init__(self) -> None:
        # Both are tried now: a forked role that cannot be adopted would be nobody's child.
        os.close(os.pidfd_open(os.getpid()))  # fails where there is none
        with ADOPTION.during():  # fails where it is forbidden
            pass
        self._owner_pid = os.getpid()
        self._env = _interpreter_variables(os.environ)
        # SEQPACKET keeps requests apart, and shows when the other end has died.
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        # Closed here after the start, so that only the server holds this end, and its death is
        # noticed.
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                [
                    *(sys.executable, "-m", "pocketmq.cluster.forking.server"),
                    *(str(theirs.fileno()), str(os.getpid()), f"{NAMESERVER},{BROKER}", ROOM),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether it lives, and is this process's own."""
        # A fork of this process has this object too, but not the child.
        return self._owner_pid == os.getpid() and self._process.poll() is None

    def can_fork(self, command: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether a fork is the same as executing this command with this environment."""
        return (
            [*command[:2]] == [sys.executable, "-m"]
            and command[2] in IMPORTS
            # A forked role uses the server's interpreter, which read these variables at its start.
            and _interpreter_variables(env) == self._env
        )

    async def fork(
        self, command: Sequence[str], env: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> int:
        """Fork a role, which becomes a child of this process; its process id.

        Cancelling this leaves no role behind.

        Raises:
            ForkRefusedError: It cannot be done.
        """
        request = ForkRequest(
            module=command[2], arguments=tuple(command[3:]), env=env, folder=os.getcwd()
        )
        # Each answer has its own socket, as several roles may be requested at once.
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.setblocking(False)
            try:
                with theirs, ADOPTION.during():
                    fds = [theirs.fileno(), stdout.fileno(), stderr.fileno()]
                    socket.send_fds(self._socket, [request.encode()], fds)
                    theirs.close()  # so that the server's end ends the answer
                    answer = await self._answer(ours)
            except OSError as exc:
                raise ForkRefusedError(f"the fork server does not answer: {exc!r}") from exc
            # The answer is a pid, or the reason why there is none.
            if not answer.isdigit():
                raise ForkRefusedError(answer.decode() or "the fork server has ended")
            pid = int(answer)
            if not _is_own_child(pid):  # the system did not hand it over; it ends unheard
                raise ForkRefusedError(
                    f"the forked process {pid} did not become a child of this process"
                )
            # It begins to run only now: before it is a child of this process, nobody could wait for
            # it.
            ours.send(GO)
            return pid

    def close(self) -> None:
        """End it; the roles that it forked go on."""
        # The server sees the end of this socket, and ends too.
        self._socket.close()
        if self._owner_pid != os.getpid():
            return
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    async def _answer(self, ours: socket.socket) -> bytes:
        try:
            async with SystemClock().timeout(ANSWER_LIMIT_S):
                return await asyncio.get_running_loop().sock_recv(ours, _ANSWER_BYTES)
        except TimeoutError:
            # A server that does not answer would delay all later roles, so the next role gets a new
            # one.
            self._process.kill()
            raise
        except asyncio.CancelledError:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                if (answer := ours.recv(_ANSWER_BYTES)).isdigit():  # a moment too late
                    ours.close()  # the role sees that, and ends
                    _reap(int(answer))
            raise


def shared_server() -> ForkServer | None:
    """The fork server of this process, started now if there is none; None where it cannot be."""
    return _SHARED.server()


class _Shared:
    """The fork server of this process, for all its threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._servers: list[ForkServer] = []

    def server(self) -> ForkServer | None:
        if sys.platform != "linux" or os.environ.get(SWITCH) == "0":
            return None
        with self._lock:
            # It may have died, or belong to this process's parent.
            if self._servers and not self._servers[0].is_usable:
                self._servers.pop().close()
            if not self._servers:
                try:
                    self._servers.append(ForkServer())
                except OSError as exc:
                    # Roles are then executed as everywhere else, which only takes longer.
                    log.debug("fork_server.not_started", reason=repr(exc))
                    return None
            return self._servers[0]

    def close(self) -> None:
        with self._lock:
            while self._servers:
                self._servers.pop().close()


_SHARED = _Shared()
atexit.register(_SHARED.close)


def _interpreter_variables(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_INTERPRETER)}


def _reap(pid: int) -> None:
    os.waitpid(pid, 0)


def _is_own_child(pid: int) -> bool:
    try:
        # WNOWAIT keeps the status for the real wait.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
