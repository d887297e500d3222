"""Where clients reach this broker: in message ids, in stored records, at the name servers."""

from __future__ import annotations

from pocketmq.protocol.hosts import pack_host
from pocketmq.runtime.addresses import address_text, without_brackets


class BrokerAddress:
    """The broker's own address; its port is certain once the broker listens.

    A name is registered as it was typed, since clients may find another address by it than this
    machine does; records and message ids hold an address, so it is looked up once for them (B-1).

    Args:
        host: the address or name registered for clients.
        port: from the options; 0 takes a free one.
        ip: the address of `host` where that is a name.

    Raises:
        IllegalNameError: there is no address.
    """

    __slots__ = ("host", "ip", "packed", "port")

    def __init__(self, host: str, port: int, ip: str = "") -> None:
        self.host = without_brackets(host)
        self.ip = ip or self.host
        self.port = port
        self.packed = pack_host(self.ip, port)
        """As records hold it: 8 bytes, or 20 for IPv6."""

    def __str__(self) -> str:
        return address_text(self.host, self.port)

    def listens_at(self, port: int) -> None:
        """The port is known. The broker calls this before any subject starts."""
        self.port = port
        self.packed = pack_host(self.ip, port)
