"""The replication port of a broker, and the slaves that are connected to it (H-2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import structlog

from pocketmq.broker.replication.ha_port import HaPort
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.replication.slave_connection import SlaveConnection
from pocketmq.broker.role import RoleState
from pocketmq.broker.store import MessageStore
from pocketmq.broker.subject import Service
from pocketmq.protocol.budget import BudgetSource
from pocketmq.protocol.transport.network import Listener, Network
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PortInUseError
from pocketmq.runtime.periodic import AT_REST, PeriodicService
from pocketmq.runtime.signals import Signal
from pocketmq.runtime.words import counted

log = structlog.get_logger()

MakeConnection: TypeAlias = Callable[
    [
        MessageStore,
        HaRules,
        Clock,
        Callable[[SlaveConnection], None],
        Callable[[], None],
        Callable[[SlaveConnection], None],
    ],
    SlaveConnection,
]
"""With the arguments of `SlaveConnection`."""

TICK_S = 1.0


class HaService(Service):
    """Accepts slaves, and sends them what is appended.

    Args:
        store: whose log is sent.
        role: a slave's port is open too, and sends nothing while it follows (H-2).
        network: where it listens.
        clock: heartbeats and silence.
        rules: sizes and times.
        where: host and port.
        budget: how many connections it has.
        connection: makes one of a slave; controller mode's are others.
    """

    def __init__(
        self,
        store: MessageStore,
        role: RoleState,
        network: Network,
        clock: Clock,
        rules: HaRules,
        where: HaPort,
        budget: BudgetSource,
        connection: MakeConnection = SlaveConnection,
    ) -> None:
        self.acks_moved: Signal[[]] = Signal()
        """A slave has more of the log, or one has come or gone."""
        self._store = store
        self._role = role
        self._network = network
        self._clock = clock
        self._rules = rules
        self._where = where
        self._budget = budget
        self._connection = connection
        self._connections: dict[SlaveConnection, None] = {}
        self._listener: Listener | None = None
        self._ticks = PeriodicService("replication", clock, TICK_S, self._tick)
        self._has_stopped = False
        self._listens = False
        """Whether `store.grew` reaches us: a broker that never had a slave is spared it."""

    @property
    def connections(self) -> Sequence[SlaveConnection]:
        """Of the slaves that are connected, in the order in which they came."""
        return tuple(self._connections)

    def acks(self) -> list[int]:
        """How far each connected slave is; -1 for one that has not reported."""
        return [connection.link.acked for connection in self._connections]

    async def start(self) -> None:
        """Listen, on any free port when the usual one is taken: slaves learn it from name servers
        and from the master, and one that nobody can follow could not be replaced.

        Raises:
            PortInUseError: `haListenPort` was given, and is taken.
        """
        where = self._where
        try:
            self._listener = await self._network.listen(
                where.host, where.port, self._accept, budget=self._budget
            )
        except PortInUseError:
            # A configured port is required; otherwise slaves learn the port from the name servers.
            if where.is_configured:
                raise
            self._listener = await self._network.listen(
                where.host, 0, self._accept, budget=self._budget
            )
            log.warning("replication_port.taken", port=where.port, instead=self._listener.port)
        where.listens_at(self._listener.port)
        self._ticks.start()

    async def stop(self) -> None:
        if self._listener is None:
            return
        # Stop listening first, so that no slave connects while the others are closed. One that was
        # accepted before is reported later.
        self._has_stopped = True
        await self._listener.close()
        await self._ticks.stop()
        self.drop_all("the broker stops")

    def drop_all(self, reason: str) -> None:
        """Close the connection of every slave: the role changes, or the broker stops (I-17)."""
        for connection in self.connections:
            connection.drop(reason)

    def _accept(self) -> SlaveConnection:
        return self._connection(
            self._store,
            self._rules,
            self._clock,
            self._opened,
            self.acks_moved.emit,
            self._closed,
        )

    def _opened(self, connection: SlaveConnection) -> None:
        # A slave's port is open but sends nothing: its log is its master's (H-2, I-17).
        if not self._role.leads:
            connection.drop("this broker is a slave itself")
        elif self._has_stopped:
            connection.drop("the broker stops")
        elif len(self._connections) >= self._budget().slaves:
            there = counted(len(self._connections), "connection")
            connection.drop(f"there are {there} already (budget.slaves)")
        else:
            self._connections[connection] = None
            # Connected only when needed, so that brokers without slaves save a call at each append.
            if not self._listens:
                self._listens = True
                self._store.grew.connect(self._grew)
            self._ticks.resume()
            # A put may be waiting for this slave.
            self.acks_moved.emit()

    def _closed(self, connection: SlaveConnection) -> None:
        if connection in self._connections:
            del self._connections[connection]
            self.acks_moved.emit()

    def _grew(self) -> None:
        for connection in self._connections:
            connection.send_soon()

    def _tick(self) -> float | None:
        for connection in self.connections:
            connection.tick()
        return None if self._connections else AT_REST
