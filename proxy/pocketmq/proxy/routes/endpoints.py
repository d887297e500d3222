"""Which address stands in a route: one that the asker can reach (G-59).

RocketMQ's proxy says the host that the asker used with its own port, so that behind `docker run -p
18081:8081` an SDK is sent to a port that nobody listens on. Here host and port come back as they
were, since the asker has just reached us there.
"""

from __future__ import annotations

from typing import Any

from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import AddressScheme


def endpoints_for(asked: Any, advertise: tuple[str, int] | None) -> Any:
    """The endpoints of every broker in an answer.

    Args:
        asked: Those that the request names.
        advertise: Host and port in their place; also used when the request names none.
    """
    # Return the same object, with its scheme and all its addresses.
    if advertise is None:
        return asked
    host, port = advertise
    return pb.Endpoints(scheme=scheme_of(host), addresses=[pb.Address(host=host, port=port)])


def scheme_of(host: str) -> AddressScheme:
    """What a host is written as."""
    # Before the dots: an IPv6 address may end in an IPv4 one.
    if ":" in host:
        return AddressScheme.IPv6
    parts = host.split(".")
    if len(parts) == 4 and all(part.isdecimal() for part in parts):
        return AddressScheme.IPv4
    return AddressScheme.DOMAIN_NAME
