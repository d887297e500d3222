"""Where clients reach this broker: in message ids, in stored records, at the name servers."""

from __future__ import annotations

from pocketmq.protocol.hosts import pack_host


class BrokerAddress:
    """The broker's own address; its port is certain once the broker listens.

    Args:
        ip: the address registered for clients.
        port: from the options; 0 takes a free one.
    """

    __slots__ = ("ip", "packed", "port")

    def __init__(self, ip: str, port: int) -> None:
        self.ip = ip
        self.port = port
        self.packed = pack_host(ip, port)
        """As records hold it: 8 bytes, or 20 for IPv6."""

    def __str__(self) -> str:
        return f"{self.ip}:{self.port}"

    def listens_at(self, port: int) -> None:
        """The port is known. The broker calls this before any subject starts."""
        self.port = port
        self.packed = pack_host(self.ip, port)
