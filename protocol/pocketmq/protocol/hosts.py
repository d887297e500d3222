"""Addresses as records and message ids hold them (S-5, S-7, S-8).

ip 4 or 16 bytes | port int32           8 or 20 bytes, big endian
"""

import struct
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final

from pocketmq.protocol.errors import IllegalNameError
from pocketmq.runtime.addresses import address_text, split_address

HOST_V4_BYTES: Final = 8
HOST_V6_BYTES: Final = 20

_PORT: Final = struct.Struct(">i")


@lru_cache(maxsize=1024)
def pack_host(ip: str, port: int) -> bytes:
    """8 bytes for an IPv4 address, 20 for IPv6; remembered, since a broker packs its own all day.

    An IPv4 address written as IPv6 (`::ffff:1.2.3.4`, what a dual-stack socket reports) is packed
    as IPv4, as in Java.

    Raises:
        IllegalNameError: `ip` is a name and no address, or `port` is not 0..65535.
    """
    try:
        address = ip_address(ip.partition("%")[0])
    except ValueError:
        raise IllegalNameError(
            "host",
            ip,
            "must be an IP address, because records store addresses; resolve the name first",
        ) from None
    if not 0 <= port <= 65535:
        raise IllegalNameError("host", address_text(ip, port), "has no port between 0 and 65535")
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.packed + _PORT.pack(port)


def unpack_host(host: bytes | memoryview) -> tuple[str, int]:
    """The ip and the port.

    Raises:
        IllegalNameError: `host` has neither 8 nor 20 bytes.
    """
    if len(host) == HOST_V4_BYTES:
        return f"{host[0]}.{host[1]}.{host[2]}.{host[3]}", _PORT.unpack_from(host, 4)[0]
    if len(host) == HOST_V6_BYTES:
        return str(IPv6Address(bytes(host[:16]))), _PORT.unpack_from(host, 16)[0]
    raise IllegalNameError("host", bytes(host).hex(), "has neither 8 nor 20 bytes")


def host_text(host: bytes | memoryview) -> str:
    """`127.0.0.1:10911` or `[::1]:10911`."""
    return address_text(*unpack_host(host))


def parse_host_text(text: str) -> tuple[str, int]:
    """The ip and the port of `127.0.0.1:10911` or `[::1]:10911`.

    Raises:
        IllegalNameError: it is neither.
    """
    try:
        return split_address(text)
    except ValueError:
        raise IllegalNameError("host", text, "is not written as ip:port") from None
