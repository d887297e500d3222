"""The roles of a broker (H-1). Pure."""

from __future__ import annotations

from enum import Enum, unique
from typing import Final

UNKNOWN_ID: Final = -1
"""Until a controller says who this broker is."""


@unique
class BrokerRole(Enum):
    """What `brokerRole` says, and what a controller changes."""

    ASYNC_MASTER = "ASYNC_MASTER"
    """Takes messages, and does not wait for slaves."""
    SYNC_MASTER = "SYNC_MASTER"
    """Takes messages, and waits for slaves (B-140)."""
    SLAVE = "SLAVE"
    """Follows a master."""

    @property
    def is_master(self) -> bool:
        return self is not BrokerRole.SLAVE
