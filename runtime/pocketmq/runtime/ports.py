"""What to say when a port cannot be had."""

from __future__ import annotations

import errno
import socket

from pocketmq.runtime.errors import ConfigError, EnvironmentFault, PocketMQError, PortInUseError

MAX_PORT = 65_535


def check_port(port: int) -> None:
    """Refuse what is no port: uvloop would listen on its last 16 bits.

    Raises:
        ConfigError: It is not in 0..65535.
    """
    if not 0 <= port <= MAX_PORT:
        raise ConfigError("port", f"{port} is none", advice=f"write 0 to {MAX_PORT}")


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


def check_port_free(host: str, port: int) -> None:
    """Fail early when nobody could listen on `host:port`; port 0 is always free.

    For roles that have slow or wordy things to do before they listen.

    Raises:
        ConfigError: It is no port at all.
        PortInUseError, EnvironmentFault: as from `bind_error`.
    """
    check_port(port)
    if port == 0:
        return
    try:
        socket.create_server((host, port)).close()
    except OSError as exc:
        raise bind_error(exc, host, port) from exc


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
