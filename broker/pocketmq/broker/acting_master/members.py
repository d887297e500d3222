"""`Members`: a slave that knows who is in its group, and acts as master when it has to (Z-5)."""

from __future__ import annotations

import structlog

from pocketmq.broker.acting_master.group_peers import NO_ANSWER, GroupPeers
from pocketmq.broker.acting_master.group_view import GroupView
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.replication.role_changes import RoleChanges
from pocketmq.broker.subject import Service
from pocketmq.protocol.headers.controller import (
    ExchangeHaInfoRequestHeader,
    ExchangeHaInfoResponseHeader,
)
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()


class Members(Service):
    """Asks name servers for the group, and carries out what follows; of a slave only.

    Emits `master_told`, and `master_returned` when a slave need not be waited at any more.

    Args:
        core: of the broker.
        roles: knows the master.
        peers: are asked.
        offsets: are committed here while this slave acts.
        period_s: between two questions.
    """

    def __init__(
        self,
        core: BrokerCore,
        roles: RoleChanges,
        peers: GroupPeers,
        offsets: ConsumerOffsetManager,
        period_s: float,
    ) -> None:
        self._offsets = offsets
        self.view = GroupView(core.role.broker_id)
        self._core = core
        self._roles = roles
        self._peers = peers
        self._looks = PeriodicService("look at the group", core.clock, period_s, self._look)

    async def start(self) -> None:
        if not self._core.role.leads and self._peers.has_nameservers:
            self._looks.start()

    async def stop(self) -> None:
        await self._looks.stop()

    def told(self, broker_id: int, address: str | None, replication: str | None) -> None:
        """A name server tells who has the least id (905).

        Args:
            broker_id: of that broker.
            address: of that broker.
            replication: its replication address, if it came just now.
        """
        if not self._core.role.leads and self.view.told(broker_id, address):
            self._changed(replication)

    async def _look(self) -> float | None:
        if self._core.role.leads:
            return AT_REST
        members = await self._peers.members()
        if members is not None and self.view.members(members):
            self._changed(None)
        if self.view.least.is_master and self._roles.master.replication is None:
            await self._find_stream()
        return None

    def _changed(self, replication: str | None) -> None:
        """Act, or rest again."""
        core, view, least = self._core, self.view, self.view.least
        # The members changed, but perhaps not whether this broker acts as master.
        if core.role.acts != view.acts:
            core.role.act(acts=view.acts, now=core.clock.monotonic())
            core.tell_role()
            if view.acts:
                self._offsets.note_acting(core.clock.time_ms())
            event = "master.acted_for" if view.acts else "master.acted_no_more"
            log.warning(event, broker=core.config.name, broker_id=view.own_id)
        # The lowest broker id is a slave's: there is no master to follow.
        if not least.is_master:
            self._roles.master_lost()
            core.signals.master_told.emit(None, None)
        elif least.address is not None:
            log.info("master.online", address=least.address)
            core.signals.master_told.emit(least.address, replication)
            core.signals.master_returned.emit()
            self._looks.wakeup()

    async def _find_stream(self) -> None:
        """Ask the master where its stream is (906)."""
        address = self.view.least.address
        if address is None:
            return
        try:
            answer = await self._peers.ask(address, ExchangeHaInfoRequestHeader())
            found = answer.header(ExchangeHaInfoResponseHeader).master_ha_address
        except NO_ANSWER as exc:
            log.info("master.not_asked", master=address, reason=str(exc))
            return
        if found and self.view.least.is_master:
            self._core.signals.master_told.emit(address, found)
