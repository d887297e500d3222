"""Starts, watches and stops the processes of a cluster, and moves their clocks.

    async with Supervisor(spec) as cluster:
        print(cluster.namesrv_addr)
        await cluster["broker-a"].freeze()
        await cluster.advance(seconds=126)

It starts all nameservers at once, then all brokers and the proxy at once, then waits until every
nameserver knows every broker, and starts slaves. It stops clients, proxies, brokers, nameservers in
this order. No process is left over, whatever fails.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import structlog

from pocketmq.cluster.control import ControlledProcess, cluster_info
from pocketmq.cluster.errors import ProcessDiedError
from pocketmq.cluster.keys.certificate import cluster_tls
from pocketmq.cluster.keys.member_secret import as_member
from pocketmq.cluster.limits import ROUTE_LIMIT_S
from pocketmq.cluster.process import ChildProcess, OnLine, State
from pocketmq.cluster.spec import ClusterSpec, ProcessSpec
from pocketmq.protocol.errors import BrokerError, RemotingError
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import ClockMemberError, PeerError, PocketMQError
from pocketmq.runtime.lifetime import StartStop
from pocketmq.runtime.manual_time import lock_step
from pocketmq.runtime.manual_time.clock_members import ClockMember
from pocketmq.runtime.manual_time.manual_clock import whole_second_ms
from pocketmq.runtime.ports import hold_port

log = structlog.get_logger()

_LOOK_S = 0.01

_ELECTION_STEP_S = 0.1
"""Protocol time between two looks for a leader, where time moves by us only."""

OnEnded = Callable[[ChildProcess], None]
OnNoProxy = Callable[[PocketMQError], None]


class Supervisor(StartStop):
    """The processes of one cluster, by name.

    Args:
        spec: The processes to start.
        env: Added to every process's environment.
        on_ended: Called with each process that ends without having been asked to.
        credentials: Sign what brokers are asked.
        on_no_proxy: Called with why a proxy did not start, without which the cluster then goes on.
            None: it does not start either.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        env: Mapping[str, str] | None = None,
        on_ended: OnEnded | None = None,
        credentials: Credentials | None = None,
        on_no_proxy: OnNoProxy | None = None,
    ) -> None:
        self.spec = spec
        self.client_tls = cluster_tls(spec.tls)
        """Of connections to its roles; None: they are in plaintext."""
        self.network = as_member(TcpNetwork(client_tls=self.client_tls), spec.member_secret)
        """Connects to its roles as they want it."""
        self.remoting = RemotingClient(self.network, credentials=credentials)
        self.clock_start_ms = spec.clock_start_ms or whole_second_ms()
        """Start time of manual clocks of the first processes, in epoch ms."""
        self._env = dict(env or {})
        self._on_ended = on_ended
        self._on_no_proxy = on_no_proxy
        self._processes: dict[str, ChildProcess] = {}
        self._specs: dict[str, ProcessSpec] = {}
        self._watchers: dict[str, asyncio.Task[None]] = {}
        self._held: dict[str, socket.socket] = {}
        """Ports of processes that have ended: they are restarted on them."""
        self._clock = SystemClock()
        self._known_ms = self.clock_start_ms
        """The latest time that manual clocks are known to have had."""

    def __getitem__(self, name: str) -> ChildProcess:
        return self._processes[name]

    # -- reading ----------------------------------------------------------------------------

    @property
    def processes(self) -> list[ChildProcess]:
        """All processes, in the order of their first start; also those that have ended."""
        return list(self._processes.values())

    @property
    def alive(self) -> list[ChildProcess]:
        """The processes that exist now, frozen ones included."""
        return [process for process in self.processes if process.is_alive]

    def of_role(self, role: str) -> list[ChildProcess]:
        """The processes of one role, in the order of their first start."""
        return [process for process in self.processes if process.role == role]

    @property
    def controller_addr(self) -> str:
        """`host:port;host:port` of all controllers, as brokers take it in `controllerAddr`."""
        return ";".join(each.address for each in self.of_role("controller") if each.address)

    @property
    def endpoints(self) -> str:
        """`host:port` that RocketMQ 5's SDKs are given; empty without a proxy."""
        for process in self.of_role("proxy"):
            if port := process.facts.get("grpc_port"):
                return address_text(process.facts.get("host", "127.0.0.1"), int(port))
        return ""

    @property
    def nameserver_addresses(self) -> list[str]:
        """`host:port` of each nameserver, also of one that has ended."""
        return [process.address for process in self.of_role("nameserver") if process.address]

    @property
    def namesrv_addr(self) -> str:
        """`host:port;host:port`, as RocketMQ's clients read it from `NAMESRV_ADDR`."""
        return ";".join(self.nameserver_addresses)

    def control(self, name: str) -> ControlledProcess:
        """Access to one process's clock and state, over its port."""
        return ControlledProcess(name, self[name].address, self.remoting, self.frozen_addresses)

    @property
    def frozen_addresses(self) -> list[str]:
        """`host:port` of each process that is frozen now."""
        return [each.address for each in self.processes if each.state is State.FROZEN]

    # -- starting and stopping --------------------------------------------------------------

    async def start(self) -> None:
        """Start all processes of the spec; returns when the routes are complete.

        Raises:
            ProcessStartError: A process did not become ready; the others are stopped again.
        """
        try:
            # Brokers get the addresses of nameservers and controllers on their command lines.
            await self._start_all(self.spec.nameservers)
            await self._start_all(self.spec.controllers)
            # Brokers ask for the leading controller at their start, and would wait for one.
            await self.wait_for_controllers()
            *earlier, last = self._turns()
            for brokers in earlier:
                await self._start_all(brokers)
            # A proxy imports gRPC while the brokers open their stores, which saves time.
            with_last = () if self.spec.slaves else self.spec.proxies
            await self._start_all((*last, *with_last))
            await self.wait_for_brokers([spec.broker_name for spec in self.spec.brokers])
            if self.spec.slaves:  # they learn their masters by registering (H-8)
                await self._start_all((*self.spec.slaves, *self.spec.proxies))
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop clients, proxies, brokers, nameservers in turn; kill those that do not stop."""
        # In this order, so that roles still reach those that they need: brokers unregister at
        # nameservers.
        for role in ("client", "proxy", "broker", "controller", "nameserver"):
            await asyncio.gather(*(process.stop() for process in self.of_role(role)))
        watchers = list(self._watchers.values())
        # Watchers hold the ports of ended processes, which are freed below.
        if watchers:
            await asyncio.wait(watchers)
        for name in list(self._held):
            self._held.pop(name).close()
        await self.remoting.close()

    async def add(
        self,
        spec: ProcessSpec,
        *,
        on_line: OnLine | None = None,
        env: Mapping[str, str] | None = None,
    ) -> ChildProcess:
        """Start one more process, such as a client, which the supervisor then watches and stops.

        Args:
            spec: Its name must be new.
            on_line: Called with each line that it prints after its ready line.
            env: Added to its environment.
        """
        if spec.name in self._processes:
            raise ValueError(
                f"a process named {spec.name} already exists; restart it, or choose another name"
            )
        process = ChildProcess(
            spec.name,
            spec.role,
            spec.command(),
            log_path=self.spec.logs / f"{spec.name}.log",
            env={**self._env, **(env or {})},
            on_line=on_line,
        )
        # Noted before the start, so that a process that fails to start is also stopped later.
        self._processes[spec.name] = process
        self._specs[spec.name] = spec
        await self._start(process)
        return process

    async def restart(self, name: str) -> ChildProcess:
        """Start a process that has ended again, on the same port."""
        process = self[name]
        # After its end the port is reserved for it until it has started again.
        await process.wait()
        await self._start(process)
        return process

    async def wait_for_brokers(self, names: Iterable[str]) -> None:
        """Wait until every running nameserver knows all these brokers.

        Raises:
            PeerError: It took longer than `ROUTE_LIMIT_S` real seconds.
        """
        missing = set(names)
        if not missing:
            return
        try:
            async with self._clock.timeout(ROUTE_LIMIT_S):
                for nameserver in self.of_role("nameserver"):
                    # A nameserver that has ended or is frozen is not waited for.
                    while nameserver.state is State.READY and (
                        missing - await self._known_brokers(nameserver.address)
                    ):
                        await self._clock.sleep(_LOOK_S)
        except TimeoutError:
            raise PeerError(
                f"after {ROUTE_LIMIT_S:g} s, a nameserver still did not know broker "
                f"{', '.join(sorted(missing))}; see the brokers' logs in {self.spec.logs}"
            ) from None

    async def wait_for_controllers(self) -> None:
        """Return when one controller leads; manual clocks move until then.

        Raises:
            PeerError: It took longer than `ROUTE_LIMIT_S` real seconds.
        """
        if not self.of_role("controller"):
            return
        is_between = False
        try:
            async with self._clock.timeout(ROUTE_LIMIT_S):
                while await self.leading_controller() is None:
                    if self.spec.clock == "manual":
                        # An election waits for timers, and nobody else moves the manual clock yet.
                        await self.advance(seconds=_ELECTION_STEP_S)
                        is_between = not self.spec.clock_start_ms
                    await self._clock.sleep(_LOOK_S)
        except TimeoutError:
            raise PeerError(
                f"after {ROUTE_LIMIT_S:g} s, no controller was leader; see the controllers' logs "
                f"in {self.spec.logs}"
            ) from None
        if is_between:  # on to a whole second, at which manual clocks begin
            await self.advance(seconds=-self._known_ms % 1000 / 1000)

    async def leading_controller(self) -> ChildProcess | None:
        """The controller that decides at the moment, if any does."""
        for process in self.of_role("controller"):
            if process.state is not State.READY:
                continue
            try:
                status = await self.control(process.name).status()
            except ClockMemberError:
                continue
            if status.get("serves") == "true":
                return process
        return None

    # -- time -------------------------------------------------------------------------------

    async def advance(
        self, seconds: float, *, others: Sequence[ClockMember] = (), leave_out: Iterable[str] = ()
    ) -> list[str]:
        """Move all clocks in lock step; dead and frozen processes are left out.

        Args:
            seconds: By how much.
            others: Further clocks, such as that of a client in a test.
            leave_out: Names of processes whose clocks are not moved.

        Returns:
            Names of processes that died while their clock moved.
        """
        lost: list[str] = []

        def on_lost(member: ClockMember, error: ClockMemberError) -> None:
            log.warning("member.lost", member=member.name, reason=error.reason)
            lost.append(member.name)

        # Only running processes: an ended one's clock would be waited for.
        members = [*self.clock_members(leave_out), *others]
        self.note_time(await lock_step.advance(members, round(seconds * 1000), on_lost=on_lost))
        return lost

    def note_time(self, time_ms: int) -> None:
        """Manual clocks stand at this time: no process that starts later begins before it."""
        self._known_ms = max(self._known_ms, time_ms)

    def clock_members(self, leave_out: Iterable[str] = ()) -> list[ClockMember]:
        """The processes whose clocks can be moved now."""
        skip = set(leave_out)
        return [
            self.control(process.name)
            for process in self.processes
            if process.state is State.READY and process.address and process.name not in skip
        ]

    # -- inside -----------------------------------------------------------------------------

    def _turns(self) -> list[Sequence[ProcessSpec]]:
        """The brokers by when they start: all at once, but replicas of a name on manual clocks.

        Of those that claim an id at the same moment all but one ask again a second later, which
        would never come while nobody moves their clocks.
        """
        if self.spec.clock != "manual":
            return [self.spec.brokers]
        turns: list[list[ProcessSpec]] = []
        seen = Counter[str]()
        for each in self.spec.brokers:
            if seen[each.broker_name] == len(turns):
                turns.append([])
            turns[seen[each.broker_name]].append(each)
            seen[each.broker_name] += 1
        return list(turns) or [()]

    async def _start_all(self, specs: Sequence[ProcessSpec]) -> None:
        # All are awaited, even after an error: none may still be starting while others are stopped.
        results = await asyncio.gather(*(self.add(spec) for spec in specs), return_exceptions=True)
        for spec, result in zip(specs, results, strict=True):
            if not isinstance(result, BaseException):
                continue
            told = self._on_no_proxy if spec.role == "proxy" else None
            if told is None or not isinstance(result, PocketMQError):
                raise result
            await self._leave_out(spec)
            told(result)

    async def _leave_out(self, spec: ProcessSpec) -> None:
        """Go on as if a proxy that did not start had never been in the spec."""
        await self._processes.pop(spec.name).kill()
        if watcher := self._watchers.pop(spec.name, None):
            await asyncio.wait([watcher])  # it may hold the port
        if held := self._held.pop(spec.name, None):
            held.close()
        del self._specs[spec.name]
        left = tuple(each for each in self.spec.proxies if each is not spec)
        self.spec = replace(self.spec, proxies=left)

    async def _start(self, process: ChildProcess) -> None:
        spec = self._specs[process.name]
        process.command = [*spec.command(), "--exit-with-parent"]
        if process.port:  # a restart: peers know it by its old port
            process.command += ["--port", str(process.port)]
        if grpc_port := process.facts.get("grpc_port"):
            process.command += ["--grpc-port", grpc_port]
        if self.spec.clock == "manual":
            process.command += ["--clock", "manual"]
            process.command += ["--clock-start-ms", str(await self._time_ms())]
        if spec.role not in ("nameserver", "controller"):
            process.command += ["--nameservers", self.namesrv_addr]
        if spec.role == "broker" and self.controller_addr:
            process.command += ["--controllers", self.controller_addr]
        await process.start()
        # Reserved until the process has bound the port, so that nobody else can take it.
        if held := self._held.pop(process.name, None):
            held.close()
        self._watchers[process.name] = asyncio.get_running_loop().create_task(
            self._watch(process), name=f"watch {process.name}"
        )
        if process.address and spec.role != "client":
            await self.control(process.name).status()

    async def _watch(self, process: ChildProcess) -> None:
        status = await process.wait()
        if process.port and (
            held := hold_port(process.facts.get("host", "127.0.0.1"), process.port)
        ):
            self._held[process.name] = held
        # It was asked to end, or never ran.
        if process.expected_end or status is None:
            return
        error = ProcessDiedError(process.name, status, process.log_path)
        log.warning("process.died", process=process.name, reason=str(error))
        if self._on_ended is not None:
            self._on_ended(process)

    async def _time_ms(self) -> int:
        """The time of the manual clocks, at which a process that starts later begins."""
        for member in self.clock_members():
            try:
                # The first answer is enough: all manual clocks have the same time, but for one that
                # was frozen, and is behind what is known.
                self.note_time(await member.time_ms())
                break
            except ClockMemberError:
                continue
        return self._known_ms

    async def _known_brokers(self, nameserver: str) -> set[str]:
        try:
            return set((await cluster_info(nameserver, self.remoting)).broker_addr_table)
        except (RemotingError, BrokerError):
            return set()
