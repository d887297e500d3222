"""The roles of a cluster as processes, under a supervisor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pocketmq.cluster.process import State
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.lock_step import ClockMember
from pocketmq.runtime.logs import configure_if_unset
from pocketmq.testing.shape import ClusterShape

_STATES = {State.READY: "running", State.FROZEN: "frozen"}


class RoleProcesses:
    """The same calls as `RoleThreads`, for processes.

    Args:
        shape: What the cluster consists of.
        data: Folder of stores and logs.
    """

    def __init__(self, shape: ClusterShape, data: Path) -> None:
        self.data = data
        self._shape = shape
        options = ClusterOptions(
            nameservers=shape.nameservers,
            brokers=shape.brokers,
            any_port=True,
            clock=shape.clock,
            profile=shape.profile,
        )
        self._spec = cluster_spec(options, data)
        self._supervisor: Supervisor | None = None

    # -- reading ----------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Nameservers first."""
        return [each.name for each in (*self._spec.nameservers, *self._spec.brokers)]

    @property
    def nameserver_addresses(self) -> list[str]:
        """`127.0.0.1:port` of each."""
        return self._running.nameserver_addresses

    @property
    def running_brokers(self) -> list[str]:
        """Names of those that are neither frozen nor ended."""
        return [each.name for each in self._running.of_role("broker") if each.state is State.READY]

    def state(self, name: str) -> str:
        """`running`, `frozen` or `ended`."""
        return _STATES.get(self._running[name].state, "ended")

    def log_tail(self, name: str, lines: int) -> str:
        """The end of a process's log file."""
        return "" if self._supervisor is None else self._supervisor[name].log_tail(lines)

    # -- life -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start everything; see `Supervisor.start`."""
        configure_if_unset()
        supervisor = Supervisor(self._spec)  # in the loop that it lives in
        await supervisor.start()
        self._supervisor = supervisor

    async def stop(self) -> None:
        """Stop everything."""
        if self._supervisor is not None:
            await self._supervisor.stop()

    async def freeze(self, name: str) -> None:
        """SIGSTOP."""
        await self._running[name].freeze()

    async def thaw(self, name: str) -> None:
        """SIGCONT."""
        self._running[name].thaw()

    async def kill(self, name: str) -> None:
        """SIGKILL."""
        await self._running[name].kill()

    async def restart(self, name: str) -> None:
        """A new process on the same port and files."""
        await self._running.restart(name)

    # -- time -------------------------------------------------------------------------------

    def time_ms(self) -> int:
        """Where a manual clock began; the present on a real one."""
        if self._shape.clock == "real":
            return SystemClock().time_ms()
        return self._running.clock_start_ms

    def clock_members(self) -> Sequence[ClockMember]:
        """Those that can be moved now."""
        return self._running.clock_members()

    @property
    def _running(self) -> Supervisor:
        assert self._supervisor is not None, "the cluster is started before it is asked"
        return self._supervisor
