"""What controllers, slaves and tools ask of a replica: 1008, 906, 1007."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.controller_mode.controllers import Verdict
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.replication.ha_info import ha_info
from pocketmq.protocol.bodies.controller import EpochEntry, EpochEntryCache, SyncStateSet
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.controller import (
    ExchangeHaInfoRequestHeader,
    NotifyBrokerRoleChangedRequestHeader,
)
from pocketmq.protocol.scalars import INT64_MAX


class NoControllerProcessor:
    """Of a broker without controllers, in RocketMQ's words."""

    @handles(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
    def role_changed(self, _peer: Peer, request: Command) -> Reply:
        """It changes nothing (D-17)."""
        request.header(NotifyBrokerRoleChangedRequestHeader)
        return request.reply()

    @handles(RequestCode.GET_BROKER_EPOCH_CACHE)
    def epochs(self, _peer: Peer, _request: Command) -> Reply:
        """It has none (M-61)."""
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            "this request only for controllerMode ",  # so it ends there, with a blank
        )


class RoleProcessor:
    """Answers them.

    Args:
        core: of the broker.
        replication: its epochs and addresses.
        told: gets what a controller tells.
    """

    def __init__(
        self, core: BrokerCore, replication: Replication, told: Callable[[Verdict], None]
    ) -> None:
        self._core = core
        self._replication = replication
        self._told = told

    @handles(RequestCode.NOTIFY_BROKER_ROLE_CHANGED)
    def role_changed(self, _peer: Peer, request: Command) -> Reply:
        """An election (D-17)."""
        header = request.header(NotifyBrokerRoleChangedRequestHeader)
        body = decode_request_body(request, SyncStateSet)
        if header.master_broker_id is not None:
            self._told(
                Verdict(
                    header.master_broker_id,
                    header.master_address,
                    header.master_epoch or 0,
                    frozenset(body.sync_state_set or ()),
                    body.sync_state_set_epoch,
                )
            )
        return request.reply()

    @handles(RequestCode.EXCHANGE_BROKER_HA_INFO)
    def ha_info(self, _peer: Peer, request: Command) -> Reply:
        """A slave asks for the master's addresses; a slave itself has none to tell (Z-7)."""
        request.header(ExchangeHaInfoRequestHeader)
        return request.reply(ha_info(self._core, self._replication.port))

    @handles(RequestCode.GET_BROKER_EPOCH_CACHE)
    def epochs(self, _peer: Peer, request: Command) -> Reply:
        """Which master's term wrote which part of the log (H-130)."""
        table = self._replication.roles.epochs.table
        log_end = self._core.store.commit_log.max_offset
        entries = [
            EpochEntry(
                epoch=each.epoch,
                start_offset=each.start,
                # The current term has no end yet.
                end_offset=INT64_MAX if each == table.last else table.end_of(each, log_end),
            )
            for each in table.entries
        ]
        body = EpochEntryCache(
            cluster_name=self._core.config.cluster_name,
            broker_name=self._core.config.name,
            broker_id=self._core.role.broker_id,
            epoch_list=entries,
            max_offset=log_end,
        )
        return request.reply(body=encode_body(body, request.encoding))
