"""What can be asked of a running cluster: its time, its brokers, its groups.

`ClusterControl` changes the cluster and asks through this; `EventStream` only asks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pocketmq.client import Admin
from pocketmq.cluster.steering.asking import ask_group_state
from pocketmq.cluster.steering.group_state import GroupState
from pocketmq.cluster.steering.roles import Roles, addresses_of
from pocketmq.cluster.steering.shape import ClockKind
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.clock import SystemClock


class ClusterView:
    """One cluster, as it is asked.

    Args:
        roles: The cluster's roles.
        clock: Whether they run on real or manual time.
    """

    def __init__(self, roles: Roles, clock: ClockKind) -> None:
        self.roles = roles
        self.clock: ClockKind = clock
        self.real_time = SystemClock()
        self._time_ms = 0
        self.network = roles.network
        """Connects to the roles as they want it."""

    @property
    def nameservers(self) -> str:
        """`host:port;host:port`."""
        return ";".join(self.roles.nameserver_addresses)

    def admin(self, nameservers: str | None = None) -> Admin:
        """An admin client on real time, of one nameserver or of all that run."""
        # Without frozen nameservers, each of which would cost a request's whole time limit.
        alive = ";".join(addresses_of(self.roles, "running", role="nameserver"))
        # when none answers, the error names them all
        return Admin(
            nameservers=nameservers or alive or self.nameservers,
            clock=self.real_time,
            credentials=self.roles.credentials,
            network=self.network,
        )

    @asynccontextmanager
    async def remoting(self, credentials: Credentials | None) -> AsyncIterator[RemotingClient]:
        """Connections for a few questions, signed as somebody."""
        client = RemotingClient(self.network, credentials=credentials)
        try:
            yield client
        finally:
            await client.close()

    async def group_state(self, group: str) -> GroupState:
        """Members, queues and offsets of a group, asked from brokers and members."""
        async with self.admin() as admin:
            return await ask_group_state(admin, group)

    def time_ms(self) -> int:
        """The cluster's time in epoch ms."""
        return self._time_ms if self.clock == "manual" else self.real_time.time_ms()

    def note_time(self, time_ms: int) -> None:
        """The roles' manual clocks were moved to this time, in epoch ms."""
        self._time_ms = time_ms
        self.roles.note_time(time_ms)  # they may all end, and start again

    async def refresh_time(self) -> int:
        """The cluster's time as roles report it: another process may have moved their clocks."""
        if self.clock == "manual":
            # The latest time: a process that was frozen is behind the others.
            times = [await each.time_ms() for each in await self.roles.clock_members()]
            self.note_time(max([self._time_ms, *times]))
        return self.time_ms()
