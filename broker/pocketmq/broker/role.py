"""Whether this broker is a master or a slave, and what runs only while it is a master (H-1, H-4).

Subjects ask `core.role.leads`; services that may run on one replica only are wrapped:

    services=(table, core.role.while_leading(schedule))

Who changes the role is `replication/`: see its `__init__.py`.
"""

from __future__ import annotations

import math

from pocketmq.broker.lease import MasterLease
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.subject import Service


class RoleState:
    """The role as it is now.

    Args:
        role: at the start.
        broker_id: 0 for a master.
        lease: how long it leads without hearing from the controllers; by default for ever.
    """

    def __init__(self, role: BrokerRole, broker_id: int, lease: MasterLease | None = None) -> None:
        self.role = role
        self.leads = role is not BrokerRole.SLAVE
        """Whether producers may send here."""
        self.broker_id = broker_id
        self.epoch = 0
        """The master's term, given by a controller; 0 without one."""
        self.master_is_known = False
        """Of a slave: a name server knows where its master is."""
        self.acts = False
        """Of a slave: it acts as master, for there is none (Z-2). It follows all the same."""
        self.acted_until = -math.inf
        """When it ended to act, in monotonic seconds."""
        self.lease = lease or MasterLease()
        """As master: at its end another one may have been elected (W-2)."""
        self.is_isolated = False
        """Not online yet: it registers nowhere, and works at nothing by itself (Z-9)."""
        self._gated: list[WhileLeading] = []

    @property
    def works(self) -> bool:
        """Whether what runs on a master only runs here now."""
        return self.leads and not self.is_isolated

    def set(self, role: BrokerRole, broker_id: int, epoch: int) -> None:
        """Change it; `apply` has to follow. Only replication calls this.

        Raises:
            ValueError: the epoch is older than the present one (I-2).
        """
        if epoch < self.epoch:
            raise ValueError(f"epoch {epoch} is older than the current epoch {self.epoch}")
        self.role, self.broker_id, self.epoch = role, broker_id, epoch
        self.leads = role is not BrokerRole.SLAVE
        self.master_is_known = self.acts = False

    def note_master(self, *, is_known: bool) -> None:
        """Of a slave: whether a name server knows its master."""
        self.master_is_known = is_known

    def act(self, *, acts: bool, now: float) -> None:
        """Of a slave: begin or end to act as master (Z-5).

        Args:
            acts: whether it acts from now on.
            now: monotonic seconds.
        """
        if self.acts:
            self.acted_until = now
        self.acts = acts

    def isolate(self) -> None:
        """Before the start: this broker is not online until `go_online` (Z-9)."""
        self.is_isolated = True

    def go_online(self) -> None:
        """Register, and work as the role says; `apply` has to follow."""
        self.is_isolated = False

    def while_leading(self, service: Service) -> Service:
        """A service that runs while this broker is a master, and rests while it is a slave."""
        gated = WhileLeading(service, self)
        self._gated.append(gated)
        return gated

    async def apply(self) -> None:
        """Start or stop what depends on the role; in the order of the subjects."""
        for gated in self._gated if self.works else reversed(self._gated):
            await gated.role_changed()


class WhileLeading(Service):
    """Wraps a service: it is begun and ended by the role as well as by the broker."""

    def __init__(self, service: Service, role: RoleState) -> None:
        self._service = service
        self._role = role
        self._may_run = False
        self._runs = False
        self._is_recovered = False

    async def load(self) -> None:
        await self._service.load()

    def recovered(self) -> None:
        if self._role.works:
            self._service.recovered()
            self._is_recovered = True

    async def start(self) -> None:
        self._may_run = True
        await self.role_changed()

    async def leave(self) -> None:
        if self._runs:
            await self._service.leave()

    async def stop(self) -> None:
        self._may_run = False
        await self._end()

    async def role_changed(self) -> None:
        """Follow the role."""
        if not self._may_run:
            return
        if not self._role.works:
            await self._end()
        elif not self._runs:
            self._runs = True
            if not self._is_recovered:
                self._service.recovered()
            await self._service.start()

    async def _end(self) -> None:
        if self._runs:
            self._runs = self._is_recovered = False
            await self._service.stop()
