"""`SlaveSynchronize`: asks the master for each table, and takes it over (B-120, H-70).

    4.9 every 10 s, 5.x every 60 s   topics 21, offsets 43, delay offsets 45, groups 201;
                                     5.x: request modes 402, timer metrics 61
    5.x every 3 s                    timer checkpoint 60

A slave also asks as soon as it hears of a master: it does not wait for the first period.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec
import structlog

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.replication.role_changes import RoleChanges
from pocketmq.broker.role import RoleState
from pocketmq.broker.subject import Service
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BadRequestError, BrokerError
from pocketmq.protocol.header import Header
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PeerError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

TIMEOUT_S = 3.0
"""Real seconds for one table."""

TakeOver: TypeAlias = Callable[[Command], None]
"""Takes a table out of the master's answer."""


class Table:
    """One table: how it is asked for, and who takes it."""

    def __init__(self, name: str, header: Callable[[], Header], take: TakeOver) -> None:
        self.name = name
        self.header = header
        self.take = take


# behaviour 43
class SlaveSynchronize(Service):
    """Fetches tables while this broker is a slave that knows its master.

    Args:
        name: of the group of tables.
        tables: in the order in which they are asked for.
        roles: knows the master.
        role: whether this broker is a slave.
        own: this broker's address; it never asks itself.
        client: the connections.
        clock: the period.
        period_s: between two rounds.
    """

    def __init__(
        self,
        name: str,
        tables: tuple[Table, ...],
        roles: RoleChanges,
        role: RoleState,
        own: BrokerAddress,
        client: RemotingClient,
        clock: Clock,
        period_s: float,
    ) -> None:
        self.rounds = 0
        """Rounds in which every table was taken over."""
        self._tables = tables
        self._roles = roles
        self._role = role
        self._own = own
        self._client = client
        self._clock = clock
        self._told: str | None = None
        self._service = PeriodicService(name, clock, period_s, self._run, initial_delay_s=0)

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()

    def master_told(self) -> None:
        """The master may have changed: ask a new one at once."""
        if self._roles.master.broker != self._told:
            self._told = self._roles.master.broker
            self._service.wakeup()

    def role_changed(self) -> None:
        """Ask a new master at once."""
        self._told = None
        self.master_told()

    async def _run(self) -> float | None:
        master = self._roles.master.broker
        if not self._tables or self._role.leads or master in (None, str(self._own)):
            return AT_REST
        assert master is not None
        taken = 0
        for table in self._tables:
            taken += await self._synchronize(table, master)
        if taken == len(self._tables):
            self.rounds += 1
        return None

    async def _synchronize(self, table: Table, master: str) -> bool:
        """One table; an error in one does not stop the others (H-70)."""
        try:
            asked = self._call(master, table.header())
            answer = expect(await self._clock.peer_answer(asked, master))
            if self._role.leads or master != self._roles.master.broker:
                return False  # the role changed meanwhile (F-21)
            table.take(answer)
        except (PeerError, BrokerError, BadRequestError, msgspec.MsgspecError) as exc:
            log.warning("table.not_synchronized", table=table.name, master=master, reason=str(exc))
            return False
        return True

    def _call(self, master: str, header: Header) -> Awaitable[Command]:
        return self._client.call(master, header, timeout_s=TIMEOUT_S)
