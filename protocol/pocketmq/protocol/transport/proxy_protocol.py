"""The PROXY protocol: the first bytes of a connection that somebody passes on, saying whose it is.

Whoever passes on a connection of an SDK to a proxy puts a header of version 2 in front of it; of
load balancers a proxy reads both versions, as RocketMQ's does (G-10, G-112).

    version 1    PROXY TCP4 192.0.2.7 192.0.2.1 4711 8081\r\n
    version 2    twelve bytes, which no text has, command, family, length, addresses and ports
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

from pocketmq.runtime.addresses import split_address

VERSION_1: Final = b"PROXY "
VERSION_2: Final = b"\r\n\r\n\0\r\nQUIT\n"
MAX_BYTES: Final = 536
"""Of a header: what fits into one segment, as the protocol asks of senders; longer is refused."""

_LINE_BYTES: Final = 107
"""Of version 1, its end included."""
_IPV4, _IPV6 = 0x11, 0x21
_LENGTHS: Final = {_IPV4: 4, _IPV6: 16}
_FAMILIES: Final = {_IPV4: socket.AF_INET, _IPV6: socket.AF_INET6}


@dataclass(frozen=True, slots=True)
class ProxyHeader:
    """What the first bytes of a connection said."""

    size: int
    """How many bytes it had."""
    source: tuple[str, int] | None
    """Who connected; None: whoever passed the connection on does not say."""


def header_of(source: str, target: str) -> bytes:
    """The header of a connection, of version 2.

    Args:
        source: `host:port` of the peer.
        target: `host:port` that it connected to. An address of neither IP makes a header that says
            nothing.
    """
    try:
        (host, port), (other, other_port) = split_address(source), split_address(target)
        kind = _IPV6 if ":" in host else _IPV4
        family = _FAMILIES[kind]
        # Leave out an IPv6 scope: it means nothing on another machine.
        addresses = socket.inet_pton(family, host.partition("%")[0]) + socket.inet_pton(
            family, other.partition("%")[0]
        )
    except (ValueError, OSError):
        return VERSION_2 + bytes((0x20, 0, 0, 0))
    ports = struct.pack(">HH", port, other_port)
    return (
        VERSION_2 + struct.pack(">BBH", 0x21, kind, len(addresses) + len(ports)) + addresses + ports
    )


def begins(data: bytes) -> bool:
    """Whether a connection that begins with these bytes, four or more, has a header."""
    return VERSION_1.startswith(data[:6]) or VERSION_2.startswith(data[:12])


def read_header(data: bytes) -> ProxyHeader | None:
    """The header at the beginning of `data`; None: more of it has to come.

    Raises:
        ValueError: it is none.
    """
    # The first byte distinguishes the two versions.
    if data[:1] == VERSION_1[:1]:
        return _read_line(data)
    if len(data) < 16:
        return None
    command, kind, length = struct.unpack_from(">BBH", data, 12)
    # Check version and length before waiting for the rest.
    if not data.startswith(VERSION_2) or command >> 4 != 2 or length > MAX_BYTES:
        raise ValueError("the connection does not begin with a valid header of the PROXY protocol")
    size = 16 + length
    if len(data) < size:
        return None
    each = _LENGTHS.get(kind, 0)
    # A LOCAL header and a family without addresses name no peer.
    if not command & 1 or not each or length < 2 * each + 4:
        return ProxyHeader(size, None)
    host = socket.inet_ntop(_FAMILIES[kind], data[16 : 16 + each])
    (port,) = struct.unpack_from(">H", data, 16 + 2 * each)
    return ProxyHeader(size, (host, port))


def _read_line(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, _LINE_BYTES)
    if end < 0:
        if len(data) >= _LINE_BYTES:
            raise ValueError(
                f"the line of the PROXY protocol does not end within the first {_LINE_BYTES} "
                "bytes of the connection"
            )
        return None
    words = data[:end].decode("ascii", "replace").split(" ")
    # UNKNOWN names no peer: a load balancer checks the port.
    if words[:2] == ["PROXY", "UNKNOWN"]:
        return ProxyHeader(end + 2, None)
    if len(words) != 6 or words[1] not in ("TCP4", "TCP6") or not words[4].isdecimal():
        raise ValueError("the connection does not begin with a valid line of the PROXY protocol")
    family = socket.AF_INET if words[1] == "TCP4" else socket.AF_INET6
    try:
        socket.inet_pton(family, words[2])
    except OSError as exc:
        raise ValueError(f"{words[2]!r} is no address") from exc
    return ProxyHeader(end + 2, (words[2], int(words[4][:5])))
