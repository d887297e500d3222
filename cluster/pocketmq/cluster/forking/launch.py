"""Starts a process: forked where a fork server can do it, else executed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import IO, Protocol

import structlog

from pocketmq.cluster.forking.fork_server import ForkServer, shared_server
from pocketmq.cluster.forking.forked import ForkedProcess
from pocketmq.cluster.forking.request import IMPORTS, ForkRefusedError

log = structlog.get_logger()

LINE_LIMIT_BYTES = 1 << 20


class Running(Protocol):
    """A child process: asyncio's, or a forked one."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    @property
    def stdout(self) -> asyncio.StreamReader | None: ...

    async def wait(self) -> int: ...

    def send_signal(self, number: signal.Signals, /) -> None: ...


class _Printed(asyncio.StreamReaderProtocol):
    """Closes its pipe at the end: on every loop, not only on asyncio's own."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


def prepare() -> None:
    """Let the fork server begin to import what roles need; the sooner, the sooner they start."""
    shared_server()


async def launch(command: Sequence[str], env: Mapping[str, str], output: IO[bytes]) -> Running:
    """Start a command in a session of its own, with its standard error in `output`.

    Args:
        command: Its words.
        env: The whole environment.
        output: An unbuffered file.
    """
    # Most commands of clients are no roles, and need no fork server.
    if command[2:3] and command[2] in IMPORTS:
        server = shared_server()
        if server is not None and server.can_fork(command, env):
            try:
                return await _fork(server, command, env, output)
            except ForkRefusedError as exc:
                # No error: executing the command does the same, but takes longer.
                log.debug("fork.refused", command=command[2], reason=str(exc))
    return await asyncio.create_subprocess_exec(
        *command,
        # On Linux the system signals the child when its parent ends; elsewhere the child watches
        # its standard input.
        stdin=asyncio.subprocess.DEVNULL
        if sys.platform == "linux"
        else asyncio.subprocess.PIPE,  # closed when this process dies, which the child notices
        stdout=asyncio.subprocess.PIPE,
        stderr=output,
        env=env,
        start_new_session=True,
        limit=LINE_LIMIT_BYTES,
    )


async def _fork(
    server: ForkServer, command: Sequence[str], env: Mapping[str, str], output: IO[bytes]
) -> Running:
    reading, writing = os.pipe()
    stdout = asyncio.StreamReader(limit=LINE_LIMIT_BYTES)
    # The writing end is closed here after the fork, so that the stream ends with the role.
    with os.fdopen(writing, "wb", 0) as printed:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: _Printed(stdout), os.fdopen(reading, "rb", 0)
        )
        try:
            return ForkedProcess(await server.fork(command, env, printed, output), stdout)
        except BaseException:
            transport.close()
            raise
