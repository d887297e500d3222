"""What to say when a port cannot be had."""

from __future__ import annotations

import errno
import random
import socket
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from pocketmq.runtime.addresses import MAX_PORT, address_text, without_brackets
from pocketmq.runtime.errors import ConfigError, EnvironmentFault, PocketMQError, PortInUseError
from pocketmq.runtime.words import counted

_AddressInfo = tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[Any, ...]]
"""What `getaddrinfo` tells of one address."""

_NEVER_GIVEN = range(15_000, 32_000)
"""Below the ports that Linux (32768) and macOS (49152) give to who asks for any."""

_EVERY_ADDRESS = {
    "": (socket.AF_INET, "192.0.2.1"),
    "0.0.0.0": (socket.AF_INET, "192.0.2.1"),  # noqa: S104 - compared with, not listened on
    "::": (socket.AF_INET6, "2001:db8::1"),
}
"""How to write it, and an address elsewhere that nobody has (RFC 5737, 3849)."""


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
        f"cannot listen on {address_text(host, port)}: {reason}; "
        "listen on an address of this machine"
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
        for bound in bound_sockets(host, port):
            bound.close()
    except OSError as exc:
        raise bind_error(exc, host, port) from exc


def bound_sockets(host: str, port: int) -> Iterator[socket.socket]:
    """A socket for each address that `host` has here, bound to `port`: as an event loop's server
    binds them, whichever family they have. Who takes one closes it.

    Raises:
        OSError: the name has no address, or one of them cannot be had.
    """
    for family, kind, protocol, _, address in _listened_addresses(host, port):
        made = socket.socket(family, kind, protocol)
        try:
            # SO_REUSEADDR frees a port that was just closed; on Windows it would take ports in use.
            if sys.platform != "win32":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Otherwise `::` would also take the port of `0.0.0.0`, which has its own socket.
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(address)
            made.listen(100)  # if only bound, another process could still listen on it
        except BaseException:
            made.close()
            raise
        yield made


def _listened_addresses(host: str, port: int) -> list[_AddressInfo]:
    try:
        found = socket.getaddrinfo(
            without_brackets(host) or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except UnicodeError as exc:  # an empty label, or one that is too long
        raise OSError(errno.EINVAL, str(exc)) from exc
    return list(dict.fromkeys(found))  # a file of hosts may name one twice


def free_ports(host: str, count: int) -> list[int]:
    """Ports that nobody listens on now, and that no system gives to who asks for any port.

    Raises:
        EnvironmentFault: nobody could listen on `host`, or no such port is free.
    """
    found: list[int] = []
    # Random, as two processes may ask at once; more than needed, as some are in use.
    tried = random.SystemRandom().sample(_NEVER_GIVEN, 100 + count)
    for port in tried:
        if len(found) == count:
            break
        try:
            check_port_free(host, port)
        except PortInUseError:
            continue
        found.append(port)
    if len(found) < count:
        raise EnvironmentFault(
            f"{counted(count, 'free port')} of {host} must be found, but of {len(tried)} ports "
            f"that were tried only {len(found)} had no listener; stop processes that listen there"
        )
    return found


def hold_port(host: str, port: int) -> socket.socket | None:
    """Keep the system from giving a port to who asks for any; None when somebody has it.

    Nobody can connect to it. Who names it may listen there, this process or another: on Linux.
    Elsewhere nobody could, so it is not held there, and None.

    Args:
        host: An IP address, not a name.
        port: Above 0.
    """
    if sys.platform != "linux":
        return None
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
        held = socket.socket(family)
    except OSError:
        return None
    # This socket and the later listener both need SO_REUSEADDR.
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind(address)
    except OSError:
        held.close()
        return None
    return held


def told_ip(host: str) -> str:
    """The address under which others reach a server that listens on `host`.

    A name is looked up. For "every address" it is the one that this machine's own packets would
    leave from; nothing is sent to find it.

    Raises:
        EnvironmentFault: the name has no address.
    """
    host = without_brackets(host)
    try:
        if host not in _EVERY_ADDRESS:
            return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as exc:
        raise bind_error(exc, host, 0) from exc
    family, somewhere = _EVERY_ADDRESS[host]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only chooses a route and a local
            # address.
            probe.connect((somewhere, 9))
        except OSError:  # no network but itself
            return "127.0.0.1" if family == socket.AF_INET else "::1"
        return str(probe.getsockname()[0])


def addresses_of(host: str) -> list[str]:
    """The addresses that a name has here, IPv4 first, as Java prefers; an address is its own.

    Raises:
        OSError: the name has none.
    """
    host = without_brackets(host)
    try:
        # A scope, as in `fe80::1%eth0`, is no part of the address.
        ip_address(host.partition("%")[0])
    except ValueError:
        pass
    else:
        return [host]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as exc:  # an empty label, or one that is too long
        raise OSError(errno.EINVAL, str(exc)) from exc
    found.sort(key=lambda each: each[0] != socket.AF_INET)
    return [str(each[4][0]) for each in found]


def listener_pid(port: int) -> int | None:
    """Process that listens on a local TCP port; None when the system does not tell."""
    import psutil  # needed on the way to an error only

    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        # macOS shows other users' sockets to root only.
        return None
    for connection in connections:
        # A socket that is not bound has an empty address.
        if connection.status == psutil.CONN_LISTEN and connection.laddr[1:2] == (port,):
            return connection.pid
    return None
