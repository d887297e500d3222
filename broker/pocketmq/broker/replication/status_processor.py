"""GET_BROKER_HA_STATUS (907): who follows, how far behind (H-41); 908 changes a number of it."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.replication.ha_client import HaClient
from pocketmq.broker.replication.ha_service import HaService
from pocketmq.broker.replication.slave_connection import SlaveConnection
from pocketmq.broker.role import RoleState
from pocketmq.broker.store import MessageStore
from pocketmq.protocol.bodies.replication import (
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)
from pocketmq.protocol.bodies.route import MASTER_ID
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.controller import ResetMasterFlushOffsetRequestHeader


class StatusProcessor:
    """Answers tools.

    Args:
        role: master or slave.
        store: the log.
        ha: its slaves.
        client: its master.
        is_in_set: with controllers: whether the replica at a connection is in the sync-state set.
    """

    def __init__(
        self,
        role: RoleState,
        store: MessageStore,
        ha: HaService,
        client: HaClient,
        is_in_set: Callable[[SlaveConnection], bool] | None = None,
    ) -> None:
        self._is_in_set = is_in_set
        self._role = role
        self._store = store
        self._ha = ha
        self._client = client

    @handles(RequestCode.GET_BROKER_HA_STATUS)
    def status(self, peer: Peer, request: Command) -> Reply:
        """The state now."""
        return request.reply(None, encode_body(self.info(), request.encoding))

    @handles(RequestCode.RESET_MASTER_FLUSH_OFFSET)
    def reset_master_flush_offset(self, _peer: Peer, request: Command) -> Reply:
        """A slave notes the number, shows it in 907 and keeps it; a master takes nothing (Z-8)."""
        if self._role.broker_id != MASTER_ID:
            header = request.header(ResetMasterFlushOffsetRequestHeader)
            self._store.checkpoint.master_flushed_offset = header.master_flush_offset
        return request.reply()

    def info(self) -> HARuntimeInfo:
        """Of a master its slaves, of a slave its connection."""
        end = self._store.commit_log.max_offset
        if not self._role.leads:
            return HARuntimeInfo(
                master=False,
                ha_client_runtime_info=HAClientRuntimeInfo(
                    master_addr=self._client.master or "",
                    max_offset=end,
                    master_flush_offset=self._store.checkpoint.master_flushed_offset,
                ),
            )
        slaves = [
            HAConnectionRuntimeInfo(
                addr=connection.link.address,
                slave_ack_offset=connection.link.acked,
                diff=connection.link.lag_bytes(end),
                in_sync=self._in_sync(connection, end),
                transfer_from_where=connection.link.next_offset,
            )
            for connection in self._ha.connections
        ]
        return HARuntimeInfo(
            master=True,
            master_commit_log_max_offset=end,
            in_sync_slave_nums=sum(slave.in_sync for slave in slaves),
            ha_connection_info=slaves,
        )

    def _in_sync(self, connection: SlaveConnection, end: int) -> bool:
        # In controller mode the set decides who is in sync, not how far it lags.
        if self._is_in_set is not None:
            return self._is_in_set(connection)
        return connection.link.is_in_sync(end)
