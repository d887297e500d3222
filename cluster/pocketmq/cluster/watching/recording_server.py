"""Serves a recording on a port of this machine, for as long as somebody looks at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from starlette.applications import Starlette

from pocketmq.cluster.http_server.guard import LOCAL_NAMES, Guard
from pocketmq.cluster.http_server.server import HttpServer
from pocketmq.cluster.watch_page.routes import page_routes, recording_routes
from pocketmq.runtime.process import RoleContext, RoleOptions, run_role


def recording_server(path: Path, *, port: int = 0) -> HttpServer:
    """A server of one recording.

    Args:
        path: The recording.
        port: Port to listen on; 0 for any.

    Raises:
        DiskError: It cannot be read.
    """
    guard = Guard(LOCAL_NAMES, None)
    app = Starlette(routes=[*page_routes(guard), *recording_routes(path, guard)])
    return HttpServer(app, guard, host="127.0.0.1", port=port)


def serve_recording(path: Path, show: Callable[[str], None]) -> int:
    """Serve a recording until SIGINT or SIGTERM; returns the exit status.

    Args:
        path: The recording.
        show: Called with the page's address when it can be opened.

    Raises:
        DiskError: It cannot be read.
    """
    server = recording_server(path)

    async def main(role: RoleContext) -> None:
        async with server:
            show(f"{server.url}/watch")
            await role.stopped()

    return run_role(main, role="pocketmq", name="watch", options=RoleOptions(log_level="error"))
