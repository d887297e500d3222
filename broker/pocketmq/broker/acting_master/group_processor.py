"""What name servers and masters say to brokers of such a group: 905, 906."""

from __future__ import annotations

from pocketmq.broker.acting_master.members import Members
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.replication.ha_info import ha_info
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.controller import (
    ExchangeHaInfoRequestHeader,
    ExchangeHaInfoResponseHeader,
)
from pocketmq.protocol.headers.route import NotifyMinBrokerIdChangeRequestHeader


class HaInfoProcessor:
    """Tells where the master's stream is; brokers of every group have it.

    Args:
        core: of the broker.
        replication: its port and its connection to the master.
        follows: whether a master may say that it is to be followed.
    """

    def __init__(self, core: BrokerCore, replication: Replication, *, follows: bool) -> None:
        self._core = core
        self._replication = replication
        self._follows = follows

    @handles(RequestCode.EXCHANGE_BROKER_HA_INFO)
    def ha_info(self, _peer: Peer, request: Command) -> Reply:
        """A slave asks; or a master that is about to be online tells (Z-7, Z-9)."""
        header = request.header(ExchangeHaInfoRequestHeader)
        if not header.master_ha_address:
            return request.reply(ha_info(self._core, self._replication.port))
        if self._follows:
            self._replication.roles.stream_told(header.master_ha_address)
        return request.reply(ExchangeHaInfoResponseHeader())


class NoGroupProcessor:
    """Of a broker that nobody acts for: it hears what name servers tell all of them (Z-6)."""

    @handles(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
    def least_id_changed(self, _peer: Peer, request: Command) -> Reply:
        """It changes nothing."""
        request.header(NotifyMinBrokerIdChangeRequestHeader)
        return request.reply()


class GroupProcessor:
    """Hears of changes in the group.

    Args:
        members: carries them out.
    """

    def __init__(self, members: Members) -> None:
        self._members = members

    @handles(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
    def least_id_changed(self, _peer: Peer, request: Command) -> Reply:
        """Another broker has the least id of the group (Z-6)."""
        header = request.header(NotifyMinBrokerIdChangeRequestHeader)
        if header.min_broker_id is not None:
            self._members.told(header.min_broker_id, header.min_broker_addr, header.ha_broker_addr)
        return request.reply()
