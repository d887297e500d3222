"""Where slaves connect (H-2)."""

from __future__ import annotations

from pocketmq.broker.address import BrokerAddress
from pocketmq.runtime.addresses import address_text

DISTANCE = 1
"""The replication port lies so far above the broker's own."""


class HaPort:
    """Host and port of the replication stream.

    Args:
        host: to listen on.
        address: the broker's own.
        configured: `haListenPort`; 0 is the broker's port plus 1, or any other when that is taken.
        any_port: the broker's own port was free to choose, so this one is too.
    """

    def __init__(
        self,
        host: str,
        address: BrokerAddress,
        configured: int,
        *,
        any_port: bool,
    ) -> None:
        self.host = host
        self._address = address
        self._configured = configured
        self._any_port = any_port
        self._listening = 0

    @property
    def is_configured(self) -> bool:
        """Whether somebody named the port, so that no other one will do."""
        return bool(self._configured)

    @property
    def port(self) -> int:
        """To listen on, or where it listens."""
        # The actual or configured port comes first; by default it is the broker's port plus one
        # (H-2).
        if self._listening or self._configured:
            return self._listening or self._configured
        return 0 if self._any_port else self._address.port + DISTANCE

    def listens_at(self, port: int) -> None:
        """The port is known."""
        self._listening = port

    def __str__(self) -> str:
        """What name servers tell slaves."""
        return address_text(self._address.host, self.port)
