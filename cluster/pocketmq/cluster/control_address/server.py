"""Serves the control address on a port."""

from __future__ import annotations

from pocketmq.cluster.control_address.app import make_app
from pocketmq.cluster.http_server.guard import LOCAL_NAMES, Guard
from pocketmq.cluster.http_server.server import HttpServer
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.runtime.addresses import in_brackets
from pocketmq.runtime.clock import Clock

DEFAULT_PORT = 9870


class ControlServer(HttpServer):
    """Serves the control address during an `async with` block.

    Args:
        control: The cluster.
        host: Address to listen on.
        port: Port to listen on; if it is in use, another one. 0 for any.
        token: Required from other machines; see `Guard`.
        clock: See `HttpServer`.
    """

    def __init__(
        self,
        control: ClusterControl,
        *,
        host: str = "127.0.0.1",
        port: int = DEFAULT_PORT,
        token: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        is_super = None if control.roles.credentials is None else control.is_super_user
        # Browsers may also use the host's own name.
        guard = Guard(LOCAL_NAMES | {in_brackets(host)}, token, is_super)
        super().__init__(make_app(control, guard), guard, host=host, port=port, clock=clock)


def loopback_beside(host: str) -> str:
    """Where the control address of roles on `host` is if nobody says it: open to nobody else."""
    return host if in_brackets(host) in LOCAL_NAMES else "127.0.0.1"
