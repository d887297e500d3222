"""Serves an application on a port: the control address, or the page of a recording."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Self

import uvicorn
from starlette.applications import Starlette

from pocketmq.cluster.http_server.guard import Guard
from pocketmq.cluster.http_server.http_connections import HttpConnections
from pocketmq.runtime.addresses import address_text, without_brackets
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.errors import EnvironmentFault
from pocketmq.runtime.ports import addresses_of

_LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not listened on
"""How this machine reaches who listens on every address."""

IDLE_LIMIT_S = 5
"""Seconds after which an idle connection is closed."""

LAST_ANSWERS_S = 0.3
"""Real seconds that answers under way have at the end."""


class HttpServer:
    """Serves an application during an `async with` block.

    Args:
        app: What answers.
        guard: Who passes its check finds a place also where many connections ask nothing.
        host: Address to listen on.
        port: Port to listen on; if it is in use, another one. 0 for any.
        clock: Of the time limits of half requests; the system's by default.
    """

    def __init__(
        self, app: Starlette, guard: Guard, *, host: str, port: int, clock: Clock | None = None
    ) -> None:
        self.connections = HttpConnections(
            guard.knows, clock or SystemClock(), needs_token=guard.needs_token
        )
        self._host = host = without_brackets(host)
        # Bound here and not by uvicorn, so that the port and `url` are known before anything is
        # served.
        self._socket = _bound(host, port)
        self.port: int = self._socket.getsockname()[1]
        self._server = _Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                timeout_keep_alive=IDLE_LIMIT_S,
                http=self.connections.protocol_class,
                # No WebSocket is served, and uvicorn would import a library for it.
                ws="none",
                # The limit for a request's head; h11 refuses longer ones.
                h11_max_incomplete_event_size=64 * 1024,
                server_header=False,
            )
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        """The address, such as the value for POCKETMQ_CONTROL."""
        return f"http://{address_text(_LOOPBACK_OF.get(self._host, self._host), self.port)}"

    def close(self) -> None:
        """Close the port without having served."""
        self._socket.close()

    async def __aenter__(self) -> Self:
        serving = self._server.serve(sockets=[self._socket])
        self._task = asyncio.get_running_loop().create_task(serving, name="control address")
        # `serve` returns only at its end, so an event reports its start.
        await self._server.is_up.wait()
        return self

    async def __aexit__(self, *failure: object) -> None:
        self._server.should_exit = True
        self._server.force_exit = True  # no waiting for what is still being answered
        if self._task is None:
            return
        # Streams such as `/events` do not end by themselves. From Python 3.12 on uvicorn would wait
        # for their connections without end, and before it would leave them open.
        while not self._task.done():
            await asyncio.wait([self._task], timeout=LAST_ANSWERS_S)
            # Again each time: until uvicorn has closed the port, there may be new ones.
            self.connections.hang_up_all()
        await self._task


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers, since the process has its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]  # uvicorn declares no type either
        yield


def _bound(host: str, port: int) -> socket.socket:
    try:
        address = addresses_of(host)[0]
        # Another cluster may use the default port: then any free one is taken, printed and noted in
        # a file.
        try:
            return _listening(address, port)
        except OSError:
            return _listening(address, 0)
    except OSError as exc:
        raise EnvironmentFault(
            f"the control address cannot listen on {host}: {exc.strerror or exc}; choose another "
            "control_host in [cluster] of the configuration"
        ) from exc


def _listening(address: str, port: int) -> socket.socket:
    """A socket of the family that the address has."""
    family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # The previous process's connections may still be in TIME_WAIT.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(where)
        made.listen(100)  # if only bound, another process could still listen on it
    except BaseException:
        made.close()
        raise
    return made
