"""The roles of a cluster as processes, under a supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Self

from pocketmq.cluster.control import discover, reachable
from pocketmq.cluster.errors import WrongStateError
from pocketmq.cluster.process import State
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.steering.shape import ClusterShape
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.tls.client_tls import ClientTls
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.logs import configure_if_unset
from pocketmq.runtime.manual_time.clock_members import ClockMember

ENDING_S = 1.0
"""Real seconds in which a process that somebody else has killed is found to have ended."""

_STATES = {State.READY: "running", State.FROZEN: "frozen"}


class RoleProcesses:
    """`Roles` that run as processes.

    Args:
        supervisor: Starts and stops them.
        credentials: Of the super user by which brokers are steered, where they check requests.
    """

    def __init__(self, supervisor: Supervisor, credentials: Credentials | None = None) -> None:
        self.supervisor = supervisor
        self.credentials = credentials
        self.data = supervisor.spec.data

    @classmethod
    def of_shape(cls, shape: ClusterShape, data: Path) -> Self:
        """Create the roles that a test asks for, on free ports."""
        options = ClusterOptions(
            nameservers=shape.nameservers,
            brokers=shape.brokers,
            proxy=shape.proxy,
            host=shape.host,
            any_port=True,
            clock=shape.clock,
            profile=shape.profile,
            events=True,
            tls=shape.tls,
            members_must_prove=shape.members_must_prove,
            strangers_read_routes=shape.strangers_read_routes,
        )
        access = shape.access
        if access is None:
            return cls(Supervisor(cluster_spec(options, data)))
        supervisor = Supervisor(
            cluster_spec(options, data),
            env=access.environment,
            credentials=access.steering,
        )
        return cls(supervisor, access.steering)

    # -- reading ----------------------------------------------------------------------------

    @property
    def client_tls(self) -> ClientTls | None:
        """Of connections to the roles; None: they are in plaintext."""
        return self.supervisor.client_tls

    @property
    def network(self) -> Network:
        """Connects to the roles as they want it."""
        return self.supervisor.network

    @property
    def ca_file(self) -> Path | None:
        """What clients trust; None: they connect in plaintext."""
        own = self.supervisor.spec.tls
        return None if own is None else own.certificate

    @property
    def member_secret_file(self) -> Path | None:
        """What the roles' members know; None where nobody proves anything."""
        return self.supervisor.spec.member_secret

    @property
    def names(self) -> list[str]:
        """Names of all roles, nameservers first."""
        spec = self.supervisor.spec
        servers = (*spec.nameservers, *spec.controllers, *spec.brokers, *spec.slaves)
        all_roles = (*servers, *spec.proxies)
        return [each.name for each in all_roles]

    @property
    def nameserver_addresses(self) -> list[str]:
        """`127.0.0.1:port` of each nameserver."""
        return self.supervisor.nameserver_addresses

    @property
    def endpoints(self) -> str:
        """`host:port` of the proxy for SDKs; empty without one."""
        return self.supervisor.endpoints

    @property
    def running_brokers(self) -> list[str]:
        """Broker names, each once, of which a process runs that is a master or may become one.

        Nameservers know brokers by these; replicas of one name are several processes.
        """
        return list(
            dict.fromkeys(
                each.broker_name
                for each in self.supervisor.spec.brokers
                if self.supervisor[each.name].state is State.READY
            )
        )

    @property
    def addresses(self) -> Mapping[str, str]:
        """Address of each role, also of one that has ended."""
        return {name: self.supervisor[name].address for name in self.names}

    @property
    def clients(self) -> Mapping[str, str]:
        """Address of each running client process that can be asked for its events."""
        return {
            each.name: each.address
            for each in self.supervisor.of_role("client")
            if each.state is State.READY and each.address
        }

    @property
    def starting(self) -> Collection[str]:
        """Names of roles and client processes that run, and cannot be asked yet."""
        return {each.name for each in self.supervisor.processes if each.state is State.STARTING}

    def role(self, name: str) -> str:
        """`nameserver`, `controller`, `broker` or `proxy`."""
        return self.supervisor[name].role

    def broker_name(self, name: str) -> str:
        """The broker name of a role, which replicas and slaves share; empty if it is no broker."""
        spec = self.supervisor.spec
        return next(
            (each.broker_name for each in (*spec.brokers, *spec.slaves) if each.name == name), ""
        )

    def state(self, name: str) -> str:
        """`running`, `frozen` or `ended`."""
        return _STATES.get(self.supervisor[name].state, "ended")

    def log_tail(self, name: str, lines: int) -> str:
        """The end of a process's log file."""
        return self.supervisor[name].log_tail(lines)

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all roles; see `Supervisor.start`."""
        configure_if_unset()
        await self.supervisor.start()

    async def stop(self) -> None:
        """Stop all roles."""
        await self.supervisor.stop()

    async def freeze(self, name: str) -> None:
        """Send SIGSTOP to a role's process."""
        await self.supervisor[name].freeze()

    async def thaw(self, name: str) -> None:
        """Send SIGCONT to a role's process."""
        self.supervisor[name].thaw()

    async def kill(self, name: str) -> None:
        """Send SIGKILL to a role's process.

        Raises:
            WrongStateError: It has ended.
        """
        # While a role starts its state is `ended`, but it can be killed.
        if self.state(name) == "ended" and name not in self.starting:
            raise WrongStateError(name, "kill", "ended")
        await self.supervisor[name].kill()

    async def stop_role(self, name: str) -> None:
        """SIGTERM; returns when it has ended."""
        await self.supervisor[name].stop()

    async def restart(self, name: str) -> None:
        """Start a role again with the same port and files.

        Raises:
            WrongStateError: It has not ended.
        """
        try:
            async with asyncio.timeout(ENDING_S):
                # It may just have been killed; its end is noticed a moment later.
                await self.supervisor[name].wait()
        except TimeoutError:
            raise WrongStateError(name, "start", self.state(name)) from None
        await self.supervisor.restart(name)

    async def wait_for_controllers(self) -> None:
        """Return when one controller leads; see `Supervisor.wait_for_controllers`."""
        await self.supervisor.wait_for_controllers()

    # -- time -------------------------------------------------------------------------------

    def time_ms(self) -> int:
        """The start time of a manual clock; the current time of a real one."""
        if self.supervisor.spec.clock == "real":
            return SystemClock().time_ms()
        return self.supervisor.clock_start_ms

    def note_time(self, time_ms: int) -> None:
        """See `Supervisor.note_time`."""
        self.supervisor.note_time(time_ms)

    async def clock_members(self) -> Sequence[ClockMember]:
        """Processes whose clocks can be moved now, with clients that announced a manual clock."""
        supervisor = self.supervisor
        own = supervisor.clock_members()
        # These are not asked, as a frozen one would be waited for.
        known = {process.address for process in supervisor.processes}
        asked = [
            each.address for each in supervisor.of_role("nameserver") if each.state is State.READY
        ]
        everyone = await discover(asked, supervisor.remoting, known=known)
        # The others are clients that announced a manual clock to a nameserver.
        others = [each for each in everyone if each.address not in known]
        return [*own, *await reachable(others, frozen=supervisor.frozen_addresses)]

    def moving(self) -> AbstractContextManager[None]:
        """Around a move of the clocks."""
        return nullcontext()
