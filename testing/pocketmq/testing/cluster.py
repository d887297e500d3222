"""A cluster for tests: its coroutines may be awaited in any event loop; `.sync` has plain calls.

with start_cluster(clock="manual") as cluster:
    await cluster.create_topic("orders")
    consumer = PushConsumer("billing", nameservers=cluster.nameservers)
    ...
    await cluster.group("billing").assigned()
    await cluster.advance(seconds=126)
"""

from __future__ import annotations

import inspect
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.errors import (
    NotReachedError,
    RealTimeClientWarning,
    WrongClusterError,
)
from pocketmq.cluster.steering.failure_report import failure_report, told_events
from pocketmq.cluster.steering.group_state import GroupState
from pocketmq.cluster.steering.roles import Roles
from pocketmq.cluster.steering.shape import ClockKind, ClusterShape, Mode
from pocketmq.cluster.steering.waiting import WAIT_LIMIT_S
from pocketmq.protocol.control import real_us
from pocketmq.runtime.errors import ConfigError, DiskError, PocketMQError
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName
from pocketmq.testing.loop_thread import LoopThread

if TYPE_CHECKING:
    from pocketmq.testing.faults import Faults
    from pocketmq.testing.sync import SyncCluster

_numbers = itertools.count(1)

Condition = Callable[[], bool | Awaitable[bool]]


class Cluster:
    """A running cluster.

    Args:
        control: Steers the cluster.
        thread: The thread of the control's loop.
        prefix: Prefix of the names that `topic_name` and `group_name` return.
        is_shared: Whether other tests use the same roles, which then may not be frozen or killed.
    """

    def __init__(
        self,
        control: ClusterControl,
        thread: LoopThread,
        *,
        prefix: str = "",
        is_shared: bool = False,
    ) -> None:
        self.control = control
        self.thread = thread
        self._prefix = prefix
        self._is_shared = is_shared
        self._began_us = real_us() if is_shared else 0

    # -- names ------------------------------------------------------------------------------

    @property
    def nameservers(self) -> str:
        """`host:port;host:port`, for clients in any language."""
        return self.control.nameservers

    @property
    def roles(self) -> list[str]:
        """`nameserver-1`, `broker-a`, ..."""
        return self.control.roles.names

    @property
    def data(self) -> Path:
        """Folder with the brokers' stores."""
        return self.control.roles.data

    @property
    def clock(self) -> ClockKind:
        """`real` or `manual`."""
        return self.control.clock

    def state(self, role: str) -> str:
        """`running`, `frozen` or `ended`."""
        return self.control.roles.state(role)

    def topic_name(self, name: str) -> str:
        """A topic name that no other test has, on a cluster that several tests share."""
        return self._prefix + name

    def group_name(self, name: str) -> str:
        """A group name that no other test has."""
        return self._prefix + name

    @cached_property
    def control_url(self) -> str:
        """The HTTP address of the cluster's control address, for code in other languages.

        It is served from the first access on; see docs/control.md.
        """
        return self.thread.result(self._serve())

    @cached_property
    def sync(self) -> SyncCluster:
        """The cluster for code without an event loop."""
        from pocketmq.testing.sync import SyncCluster

        return SyncCluster(self)

    @cached_property
    def faults(self) -> Faults:
        """Faults by rule; blocks where it is called, in a coroutine too."""
        from pocketmq.testing.faults import Faults

        return Faults(self)

    # -- topics and groups ------------------------------------------------------------------

    async def create_topic(self, name: str, *, queues: int = 4) -> str:
        """Create a topic on every broker.

        Returns when every nameserver has its route, so producers and consumers find it at once.

        Args:
            name: The topic's full name is `topic_name(name)`.
            queues: Number of queues on each broker.

        Returns:
            The topic's full name.
        """
        if queues < 1:
            raise ConfigError("queues", f"{queues} is too few", advice="write 1 or more")
        topic = self.topic_name(name)
        await self.thread.run(self.control.create_topic(topic, queues))
        return topic

    def group(self, name: str) -> Group:
        """A consumer group to wait for; `name` is the one that its consumers have."""
        return Group(self, name)

    # -- time -------------------------------------------------------------------------------

    @property
    def time_ms(self) -> int:
        """The cluster's time in epoch ms."""
        return self.control.time_ms()

    async def advance(self, seconds: float = 0, *, minutes: float = 0, hours: float = 0) -> None:
        """Move the clocks of all roles, and of all clients created in this process.

        Timers fire in the order in which they are due; returns when the tasks that they started
        have come to rest.

        Raises:
            WrongClusterError: The cluster runs on real time, or is shared.
        """
        self.check_own("move its time", "pocketmq_clock")
        await self._warn_of_real_time()
        await self.thread.run(self.control.advance(seconds + 60 * minutes + 3600 * hours))

    async def advance_until(self, condition: Condition, *, limit_s: float = 3600.0) -> float:
        """Move time from deadline to deadline until a condition holds.

        Args:
            condition: A function or a coroutine function, called in the caller's loop.
            limit_s: Maximum seconds of the cluster's time.

        Returns:
            Seconds of the cluster's time that it took.

        Raises:
            NotReachedError: The condition did not hold after `limit_s`.
        """
        self.check_own("move its time", "pocketmq_clock")
        await self._warn_of_real_time()
        began_ms = self.time_ms
        until_ms = began_ms + round(limit_s * 1000)
        while not await _holds(condition):
            if self.time_ms >= until_ms:
                name = getattr(condition, "__name__", repr(condition))
                raise NotReachedError(name, limit_s, "it does not hold; this is cluster time")
            await self.thread.run(self.control.step(until_ms))
        return (self.time_ms - began_ms) / 1000

    # -- faults -----------------------------------------------------------------------------

    async def freeze(self, role: str) -> None:
        """Stop a role's reading and timers; its connections stay up."""
        self.check_own("freeze a role", "pocketmq_cluster")
        await self.thread.run(self.control.freeze(role))

    async def thaw(self, role: str) -> None:
        """Resume a frozen role."""
        await self.thread.run(self.control.thaw(role))

    async def kill(self, role: str) -> None:
        """End a role at once, so that it cannot save anything, like kill -9."""
        self.check_own("kill a role", "pocketmq_cluster")
        await self.thread.run(self.control.kill(role))

    async def restart(self, role: str) -> None:
        """Start a killed role with the same port and files; returns when nameservers know it."""
        await self.thread.run(self.control.restart(role))

    # -- data -------------------------------------------------------------------------------

    async def save_snapshot(self, folder: Path) -> None:
        """Copy the brokers' stores and the nameservers' KV into a new folder.

        The brokers are stopped for it, one after the other; clients find them again.
        """
        self.check_own("stop its brokers", "pocketmq_cluster")
        await self.thread.run(self.control.save_snapshot(folder))

    async def load_snapshot(self, folder: Path) -> None:
        """Begin again with what was saved, in this test or in another."""
        self.check_own("replace its data", "pocketmq_cluster")
        await self.thread.run(self.control.load_snapshot(folder))

    async def reset(self) -> None:
        """Begin again without any data."""
        self.check_own("remove its data", "pocketmq_cluster")
        await self.thread.run(self.control.reset())

    # -- inside -----------------------------------------------------------------------------

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("producer", "consumer"):
                raise AttributeError(
                    f"a Cluster has no {name}; in plain code write cluster.sync.{name}(...), in a "
                    "coroutine Producer(group, nameservers=cluster.nameservers) or "
                    "PushConsumer(...)",
                    name=name,
                    obj=self,
                )
            return object.__getattribute__(self, name)  # raises again what a property raised

    def close_clients(self) -> None:
        """End the thread of the synchronous clients, if there is one."""
        if "sync" in self.__dict__:
            self.sync.close()

    async def _serve(self) -> str:
        from pocketmq.cluster.control_address.server import ControlServer

        server = ControlServer(self.control, port=0)
        await self.control.resources.enter_async_context(server)
        return server.url

    def check_own(self, wish: str, fixture: str) -> None:
        """Refuse a call that would disturb other tests of a shared cluster.

        Raises:
            WrongClusterError: It is shared.
        """
        if self._is_shared:
            raise WrongClusterError(
                f"this cluster is shared by the tests of the session, so none may {wish}; ask for "
                f"the fixture {fixture}, and the test gets a cluster of its own"
            )

    def report(self) -> str:
        """The text about the running cluster in the report of a failed test; blocks for moments."""
        try:
            events = self.thread.result(told_events(self.control))
        except (PocketMQError, OSError):  # a cluster in disorder is no reason to say nothing of it
            events = []
        return failure_report(self.control, events, since_us=self._began_us)

    def last_report(self) -> str:
        """The same without asking the roles, for when the cluster is about to end."""
        return failure_report(self.control, since_us=self._began_us)

    async def _warn_of_real_time(self) -> None:
        if self.clock == "manual":
            for client_id in await self.thread.run(self.control.real_time_clients()):
                warnings.warn(
                    f"client {client_id} runs on real time beside a manual clock: its heartbeats "
                    "and timeouts do not move with the cluster's; make it in this process without "
                    "clock=, or start it with --clock manual",
                    RealTimeClientWarning,
                    stacklevel=3,
                )


class Group:
    """A consumer group of a test's cluster.

    Args:
        cluster: The cluster in which it consumes.
        name: Its full name.
    """

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self._cluster = cluster

    async def assigned(self, *, members: int | None = None, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until each queue of the group's topics has an owner.

        Args:
            members: Required number of members; by default at least one.
            limit_s: Maximum real seconds.

        Raises:
            NotReachedError: It took longer; the message has the owners of queues.
        """
        control = self._cluster.control
        await self._cluster.thread.run(control.assigned(self.name, members, limit_s))

    async def consumed_all(self, *, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until the group has consumed all messages in its topics.

        Messages that wait for a retry or a delay are not in the topics yet.

        Raises:
            NotReachedError: It took longer; the message has the lag of each queue.
        """
        await self._cluster.thread.run(self._cluster.control.consumed_all(self.name, limit_s))

    async def state(self) -> GroupState:
        """Members, queues and offsets."""
        return await self._cluster.thread.run(self._cluster.control.group_state(self.name))


@contextmanager
def start_cluster(
    *,
    brokers: int = 1,
    nameservers: int = 1,
    clock: ClockKind = "real",
    mode: Mode = "in-process",
    profile: ProfileName = DEFAULT_PROFILE,
    data: Path | None = None,
) -> Iterator[Cluster]:
    """Start a cluster for a `with` block; it begins when every nameserver knows every broker.

    Args:
        brokers: broker-a, broker-b, ...
        nameservers: nameserver-1, ...
        clock: With `manual`, time only moves by `advance`.
        mode: `in-process`: each role in a thread of this process, on real sockets; `processes`:
            each one a process.
        profile: RocketMQ release whose rules apply.
        data: Folder for the stores; by default they are removed at the end.

    Raises:
        ConfigError: An argument has a value that is not known.
        DiskError: The folder cannot be made.
        PocketMQError: A role could not start.
    """
    shape = ClusterShape(
        mode=mode, nameservers=nameservers, brokers=brokers, clock=clock, profile=profile
    )
    folder = Path(tempfile.mkdtemp(prefix="pocketmq-")) if data is None else data
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(folder, reason, advice="choose another folder") from exc
    try:
        with running_control(shape, folder) as (control, thread):
            cluster = Cluster(control, thread)
            try:
                yield cluster
            finally:
                cluster.close_clients()
    finally:
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_control(shape: ClusterShape, data: Path) -> Iterator[tuple[ClusterControl, LoopThread]]:
    """The control of a running cluster, and the thread of its loop."""
    thread = LoopThread(f"pocketmq control {next(_numbers)}")
    try:
        control = ClusterControl(_roles(shape, data), shape.clock)
        thread.result(control.start())
        try:
            yield control, thread
        finally:
            thread.result(control.stop())
    finally:
        thread.stop()


def _roles(shape: ClusterShape, data: Path) -> Roles:
    if shape.mode == "processes":
        from pocketmq.cluster.steering.processes import RoleProcesses

        return RoleProcesses.of_shape(shape, data)
    from pocketmq.testing.in_process import RoleThreads

    return RoleThreads(shape, data)


async def _holds(condition: Condition) -> bool:
    found = condition()
    return await found if inspect.isawaitable(found) else found
