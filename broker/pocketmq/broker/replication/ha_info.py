"""What a master says of itself: EXCHANGE_BROKER_HA_INFO (906, Z-7)."""

from __future__ import annotations

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.replication.ha_port import HaPort
from pocketmq.protocol.headers.controller import ExchangeHaInfoResponseHeader


def ha_info(core: BrokerCore, port: HaPort) -> ExchangeHaInfoResponseHeader:
    """A master's addresses; a slave has none to tell."""
    # A slave has a port too, but nobody may follow a slave.
    if not core.role.leads:
        return ExchangeHaInfoResponseHeader()
    return ExchangeHaInfoResponseHeader(
        master_ha_address=str(port),
        master_flush_offset=core.store.shippable_offset,
        master_address=str(core.address),
    )
