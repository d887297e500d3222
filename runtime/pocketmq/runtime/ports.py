"""What to say when a port cannot be had."""

from __future__ import annotations

import errno

from pocketmq.runtime.errors import EnvironmentFault, PocketMQError, PortInUseError


def bind_error(exc: OSError, host: str, port: int) -> PocketMQError:
    """The readable error for a listen on `host:port` that failed with `exc`.

    Raise it `from exc`.
    """
    if exc.errno == errno.EADDRINUSE:
        return PortInUseError(port, listener_pid(port), host=host)
    if exc.errno == errno.EACCES:
        return EnvironmentFault(
            f"port {port} on {host} may not be opened by this user; choose one above 1023"
        )
    reason = exc.strerror or str(exc)
    return EnvironmentFault(
        f"cannot listen on {host}:{port}: {reason}; listen on an address of this machine"
    )


def listener_pid(port: int) -> int | None:
    """Process that listens on a local TCP port; None when the system does not tell."""
    import psutil  # needed on the way to an error only

    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return None
    for connection in connections:
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,):
            return connection.pid
    return None
