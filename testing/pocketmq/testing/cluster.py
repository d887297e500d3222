"""A cluster for tests, and the three ways to work with it.

Coroutines, which may be awaited in any event loop:

    with start_cluster(clock="manual") as cluster:
        await cluster.create_topic("orders")
        consumer = PushConsumer("billing", nameservers=cluster.nameservers)
        ...
        await cluster.group("billing").assigned()
        await cluster.advance(seconds=126)

Plain calls, for code without an event loop (`cluster.sync`). Its clients are the asynchronous ones,
which run in a loop of a separate thread; any thread may call them:

    with cluster.sync.producer("orders-producers") as producer:
        producer.send(Message("orders", b"hello"))
    with cluster.sync.consumer("billing", "orders") as consumer:
        message = consumer.receive()

Fault rules (`cluster.faults`, the fixture `pocketmq_faults`). These calls block for a few
milliseconds until every role has the rules, also in a coroutine: the roles run in other threads or
processes:

    pocketmq_faults.add("fail", code="SEND_MESSAGE", with_code="SYSTEM_BUSY", nth=1)
    pocketmq_faults.add("lose", code="NOTIFY_CONSUMER_IDS_CHANGED", probability=0.5, seed=7)
    pocketmq_faults.partition("broker-a", "nameserver-1")
    ...
    pocketmq_faults.clear()
    assert pocketmq_faults.fired("r1") == 1
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from pocketmq.client import (
    ConsumeFromWhere,
    MessageExt,
    MessageModel,
    TransactionListener,
    sync,
)
from pocketmq.client.consumer.consuming.listener import MessageListener
from pocketmq.client.consumer.progress import skipped
from pocketmq.client.instances import runs_clients
from pocketmq.cluster.durations import as_number, as_seconds
from pocketmq.cluster.steering.access import ClusterAccess, Rule
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
from pocketmq.cluster.topic_changes import check_message_type, check_queues
from pocketmq.operation.control.processor import real_us
from pocketmq.operation.faults.rule import Deed, FaultRule, Firing, WrongFaultError, check_deed
from pocketmq.protocol.scalars import MessageType
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.addresses import host_of
from pocketmq.runtime.arguments import names_checked
from pocketmq.runtime.errors import CallerError, ConfigError, DiskError, PocketMQError
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.runtime.profile import DEFAULT_PROFILE, ProfileName
from pocketmq.testing import role_logs
from pocketmq.testing.conditions import Condition, move_until, move_until_here
from pocketmq.testing.fault_options import FaultOptions
from pocketmq.testing.sync_clients import SyncConsumer, SyncProducer

_numbers = itertools.count(1)

CLUSTER_TIME = "it does not hold; this is cluster time"
"""Why a condition did not come true within a limit."""


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
        # On a shared cluster the report leaves out what the tests before this one did.
        self._began_us = real_us() if is_shared else 0

    # -- names ------------------------------------------------------------------------------

    @property
    def nameservers(self) -> str:
        """`host:port;host:port`, for clients in any language."""
        return self.control.nameservers

    @property
    def super_user(self) -> Credentials | None:
        """Who may do all, where the cluster was started with `users`; for `Admin` in a test."""
        return self.control.roles.credentials

    @property
    def endpoints(self) -> str:
        """`host:port` for RocketMQ 5's SDKs, of a cluster with `proxy=True`.

        Raises:
            ConfigError: It has no proxy.
        """
        found = self.control.roles.endpoints
        if not found:
            raise ConfigError("proxy", "this cluster has none", advice="start it with proxy=True")
        return found

    @property
    def roles(self) -> list[str]:
        """`nameserver-1`, `broker-a`, ..."""
        return self.control.roles.names

    @property
    def data(self) -> Path:
        """Folder with the brokers' stores."""
        return self.control.roles.data

    @property
    def ca_file(self) -> Path:
        """What clients trust where the cluster speaks TLS: `tls=True, tls_ca_file=...ca_file`.

        Raises:
            WrongClusterError: It does not.
        """
        if self.control.roles.client_tls is None:
            raise WrongClusterError("this cluster does not use TLS; start it with tls=True")
        if self.control.roles.ca_file is None:
            raise WrongClusterError(
                "the cluster's CA file is not known; name it with --pocketmq-ca-file"
            )
        return self.control.roles.ca_file

    @property
    def member_secret_file(self) -> Path:
        """What clients need as `member_secret_file`, or as `POCKETMQ_MEMBER_SECRET_FILE`.

        Raises:
            WrongClusterError: Nobody proves anything here.
        """
        path = self.control.roles.member_secret_file
        if path is None:
            raise WrongClusterError(
                "this cluster has no member secret; start it with members_must_prove=True"
            )
        return path

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
        return SyncCluster(self)

    @cached_property
    def faults(self) -> Faults:
        """Faults by rule; blocks where it is called, in a coroutine too."""
        return Faults(self)

    # -- topics and groups ------------------------------------------------------------------

    @names_checked
    async def create_topic(
        self, name: str, *, queues: int = 4, message_type: MessageType | None = None
    ) -> str:
        """Create a topic on every broker.

        Returns when every nameserver has its route, so producers and consumers find it at once.

        Args:
            name: The topic's full name is `topic_name(name)`.
            queues: Number of queues on each broker.
            message_type: What RocketMQ's proxy lets through to it: `"FIFO"`, `"MIXED"`, ...; by
                itself a new topic is for `"NORMAL"`.

        Returns:
            The topic's full name.

        Raises:
            ConfigError: It cannot have so many queues, or be for such messages.
        """
        check_queues(queues)
        check_message_type(message_type)
        topic = self.topic_name(name)
        await self.thread.run(self.control.create_topic(topic, queues, message_type))
        return topic

    @names_checked
    async def create_group(
        self,
        name: str,
        *,
        fifo: bool = False,
        retry_max_times: int = 16,
        retry_queue_nums: int = 1,
        consume_enable: bool = True,
    ) -> str:
        """Create a consumer group on every broker, before its first consumer does.

        Args:
            name: The group's full name is `group_name(name)`.
            fifo: RocketMQ's proxy delivers its messages in order.
            retry_max_times: Retries of a message before it is a dead letter.
            retry_queue_nums: Queues of its retry topic; 0: no retries.
            consume_enable: Whether it may consume.

        Returns:
            The group's full name.
        """
        group = self.group_name(name)
        changes = {
            "consume_message_orderly": fifo,
            "retry_max_times": retry_max_times,
            "retry_queue_nums": retry_queue_nums,
            "consume_enable": consume_enable,
        }
        # Runs in the roles' loop: asyncio's objects of one loop must not be awaited in another.
        await self.thread.run(self.control.create_group(group, changes))
        return group

    async def dead_letters(self, group: str) -> list[MessageExt]:
        """The messages that a group has failed to consume too often, the oldest first."""
        return await self.thread.run(self.control.dead_letters(group))

    def group(self, name: str) -> Group:
        """A consumer group to wait for; `name` is the one that its consumers have."""
        return Group(self, name)

    # -- time -------------------------------------------------------------------------------

    @property
    def time_ms(self) -> int:
        """The cluster's time in epoch ms."""
        return self.control.time_ms()

    @names_checked
    async def advance(
        self, seconds: float | str = 0, *, minutes: float = 0, hours: float = 0
    ) -> None:
        """Move the clocks of all roles, and of all clients created in this process.

        `advance(7200)`, `advance(hours=2)` and `advance("2h")` are the same. Timers fire in the
        order in which they are due; returns when the tasks that they started have come to rest.

        Raises:
            WrongClusterError: The cluster runs on real time, or is shared.
            CallerError: An argument is no number and no duration, or that is too far.
        """
        self.check_own("move its time", "pocketmq_clock")
        by_s = as_seconds("seconds", seconds)
        by_s += 60 * as_number("minutes", minutes) + 3600 * as_number("hours", hours)
        # Only a warning: such a client works, but a broker whose time jumps may miss its
        # heartbeats.
        await self._warn_of_real_time()
        await self.thread.run(self.control.advance(by_s))

    @names_checked
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
        until_ms = began_ms + round(as_number("limit_s", limit_s) * 1000)
        move = partial(self.control.advance_until, until_ms=until_ms)
        if not await move_until_here(self.thread, move, condition):
            # A `partial` or another callable object has no `__name__`.
            name = getattr(condition, "__name__", repr(condition))
            pending = await self.thread.run(self.control.pending())
            raise NotReachedError(name, limit_s, f"{CLUSTER_TIME}{pending}")
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

    # Only at run time: a type checker would take any name for an attribute of a cluster.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("producer", "consumer"):
                raise AttributeError(
                    f"a Cluster has no {name}; outside of a coroutine, write "
                    f"cluster.sync.{name}(...); in a coroutine, write Producer(group, "
                    "nameservers=cluster.nameservers) or PushConsumer(...)",
                    name=name,
                    obj=self,
                )
            return object.__getattribute__(self, name)  # raises again what a property raised

    def close_clients(self) -> None:
        """End the thread of the synchronous clients, if there is one."""
        # Not `self.sync`: that would start a thread only to end it.
        if "sync" in self.__dict__:
            self.sync.close()

    async def _serve(self) -> str:
        from pocketmq.cluster.control_address.server import ControlServer, loopback_beside

        # Served beside the first nameserver, so that a cluster on another address than 127.0.0.1 is
        # steered there too.
        host = loopback_beside(host_of(self.control.roles.nameserver_addresses[0]))
        server = ControlServer(self.control, host=host, port=0)
        # Entered in the control's stack, so that the port closes before the roles stop.
        await self.control.resources.enter_async_context(server)
        return server.url

    def check_own(self, wish: str, fixture: str) -> None:
        """Refuse a call that would disturb other tests of a shared cluster.

        Raises:
            WrongClusterError: It is shared.
        """
        if self._is_shared:
            raise WrongClusterError(
                f"all tests of the session share this cluster, so no test may {wish}; use the "
                f"fixture {fixture}, which gives the test a cluster of its own"
            )

    def report(self) -> str:
        """The text about the running cluster in the report of a failed test; blocks for moments."""
        # The events come from the roles: one that the test froze or killed does not answer.
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
            # Checked before each move: a client may have been started since the last one.
            for client_id in await self.thread.run(self.control.real_time_clients()):
                warnings.warn(
                    f"client {client_id} runs on real time beside a manual clock: its heartbeats "
                    "and timeouts do not move with the cluster's; make it in this process without "
                    "clock=, or start it with --clock manual",
                    RealTimeClientWarning,
                    # The frame of the test that called `advance`, so that the warning names its
                    # line.
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

    @names_checked
    async def assigned(self, *, members: int | None = None, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until each queue of the group's topics has an owner.

        Args:
            members: Required number of members; by default at least one.
            limit_s: Maximum real seconds.

        Raises:
            NotReachedError: It took longer; the message has the owners of queues.
        """
        control, limit = self._cluster.control, as_number("limit_s", limit_s)
        await self._cluster.thread.run(control.assigned(self.name, members, limit))

    @names_checked
    async def consumed_all(self, *, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until the group has consumed all messages in its topics.

        Messages that wait for a retry or a delay are not in the topics yet.

        Raises:
            NotReachedError: It took longer; the message has the lag of each queue.
        """
        control, limit = self._cluster.control, as_number("limit_s", limit_s)
        await self._cluster.thread.run(control.consumed_all(self.name, limit))

    @names_checked
    async def reset(self, topic: str, *, time_ms: int = 0) -> None:
        """Have the group consume a topic again; its members may be running.

        Args:
            topic: Its full name.
            time_ms: From what was stored at this moment on, in epoch ms; 0: from the first
                message; -1: nothing again, and nothing that is there.
        """
        await self._cluster.thread.run(self._cluster.control.reset_group(self.name, topic, time_ms))

    async def state(self) -> GroupState:
        """Members, queues and offsets."""
        return await self._cluster.thread.run(self._cluster.control.group_state(self.name))


class Faults:
    """The fault rules of one cluster.

    Args:
        cluster: A cluster that no other test uses.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @property
    def rules(self) -> list[FaultRule]:
        """The current rules."""
        return self.cluster.control.faults.rules

    def add(self, do: Deed, **options: Unpack[FaultOptions]) -> FaultRule:
        """Add a rule.

        Args:
            do: The fault; `FaultRule.do` lists all.
            options: When and where it happens: the other fields of `FaultRule`.

        Raises:
            WrongFaultError: There is no such rule, or it contradicts itself.
            WrongClusterError: The cluster is shared, or has no such role.
        """
        self.cluster.check_own("inject faults", "pocketmq_faults")
        # msgspec's own message about an unknown deed would not list the known ones.
        check_deed(do)
        try:
            # The same conversion as at the control address, so that both refuse the same rules.
            rule = msgspec.convert({"do": do, **options}, FaultRule)
        except msgspec.ValidationError as exc:
            raise WrongFaultError(
                f"this fault rule is not valid: {exc}; see docs/control.md"
            ) from exc
        return self.cluster.thread.result(self.cluster.control.add_fault(rule))

    def partition(self, one: str, other: str) -> FaultRule:
        """Partition two roles, or a role and all `others`, or a role and `clients`: frames between
        them are held back."""
        return self.add("partition", role=one, other=other)

    def clear(self, rule: FaultRule | str | None = None) -> None:
        """Remove one rule, or all."""
        rule_id = rule.id if isinstance(rule, FaultRule) else rule
        self.cluster.thread.result(self.cluster.control.clear_faults(rule_id))

    def fired(self, rule: FaultRule | str | None = None) -> int:
        """How often a current rule fired, or all of them, summed over all roles."""
        counts = self.cluster.thread.result(self.cluster.control.faults.counts())
        rule_id = rule.id if isinstance(rule, FaultRule) else rule
        # A cleared rule has no counters any more, and counts as never fired.
        wanted = counts.values() if rule_id is None else [counts.get(rule_id, {})]
        return sum(sum(each.values()) for each in wanted)

    def firings(self) -> list[Firing]:
        """The last 1,000 firings of each role, oldest first."""
        return self.cluster.thread.result(self.cluster.control.faults.firings())


class SyncCluster:
    """A `Cluster` whose calls block; they are documented there.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._thread = LoopThread("pocketmq clients")

    def close(self) -> None:
        """End the thread of the clients, which must be stopped before."""
        self._thread.stop()

    # -- names ------------------------------------------------------------------------------

    @property
    def nameservers(self) -> str:
        """`host:port;host:port`."""
        return self._cluster.nameservers

    @property
    def time_ms(self) -> int:
        """The cluster's time in epoch ms."""
        return self._cluster.time_ms

    def topic_name(self, name: str) -> str:
        """A topic name that no other test has."""
        return self._cluster.topic_name(name)

    def group_name(self, name: str) -> str:
        """A group name that no other test has."""
        return self._cluster.group_name(name)

    # -- control ----------------------------------------------------------------------------

    @names_checked
    def create_topic(
        self, name: str, *, queues: int = 4, message_type: MessageType | None = None
    ) -> str:
        """Create a topic; returns its full name when every nameserver has its route."""
        return self._thread.result(
            self._cluster.create_topic(name, queues=queues, message_type=message_type)
        )

    @names_checked
    def create_group(
        self,
        name: str,
        *,
        fifo: bool = False,
        retry_max_times: int = 16,
        retry_queue_nums: int = 1,
        consume_enable: bool = True,
    ) -> str:
        """Create a consumer group; returns its full name. See `Cluster.create_group`."""
        return self._thread.result(
            self._cluster.create_group(
                name,
                fifo=fifo,
                retry_max_times=retry_max_times,
                retry_queue_nums=retry_queue_nums,
                consume_enable=consume_enable,
            )
        )

    def dead_letters(self, group: str) -> list[MessageExt]:
        """The messages that a group has failed to consume too often, the oldest first."""
        return self._thread.result(self._cluster.dead_letters(group))

    def group(self, name: str) -> SyncGroup:
        """A consumer group, to wait for."""
        return SyncGroup(self._cluster, self._thread, name)

    @names_checked
    def advance(self, seconds: float | str = 0, *, minutes: float = 0, hours: float = 0) -> None:
        """Move the clocks of all roles and clients; `"2h"` is a duration too.

        Raises:
            CallerError: Clients run in the caller's event loop, which would stand still meanwhile.
        """
        # Checked before anything is submitted: a refused call must have moved nothing.
        _check_no_client_waits("advance")
        self._thread.result(self._cluster.advance(seconds, minutes=minutes, hours=hours))

    @names_checked
    def advance_until(self, condition: Callable[[], bool], *, limit_s: float = 3600.0) -> float:
        """Move time from deadline to deadline until a condition holds.

        The condition is called in the calling thread, so it may use the other calls here.

        Raises:
            NotReachedError: The condition did not hold after `limit_s`.
            CallerError: Clients run in the caller's event loop, which would stand still meanwhile.
        """
        _check_no_client_waits("advance_until")
        name = getattr(condition, "__name__", repr(condition))
        # A coroutine object counts as true, so the move would end at the first deadline.
        if inspect.iscoroutinefunction(condition):
            raise CallerError(
                f"{name} is a coroutine function; pass a plain function, or use `await "
                "cluster.advance_until(...)` without sync"
            )
        began_ms = self.time_ms
        until_ms = began_ms + round(as_number("limit_s", limit_s) * 1000)
        # This moves nothing, but makes the checks of `advance`: a shared cluster, clients on real
        # time.
        self.advance(0)
        control, thread = self._cluster.control, self._cluster.thread
        move = partial(control.advance_until, until_ms=until_ms)
        # The condition runs in this thread, so it may block in other calls of this class.
        if not move_until(thread, move, condition):
            pending = thread.result(control.pending())
            raise NotReachedError(name, limit_s, f"{CLUSTER_TIME}{pending}")
        return (self.time_ms - began_ms) / 1000

    @property
    def faults(self) -> Faults:
        """The cluster's fault rules."""
        return self._cluster.faults

    def freeze(self, role: str) -> None:
        """Stop a role's reading and timers."""
        self._thread.result(self._cluster.freeze(role))

    def thaw(self, role: str) -> None:
        """Let a frozen role go on."""
        self._thread.result(self._cluster.thaw(role))

    def kill(self, role: str) -> None:
        """End a role at once, like kill -9."""
        self._thread.result(self._cluster.kill(role))

    def restart(self, role: str) -> None:
        """Start a killed role again."""
        self._thread.result(self._cluster.restart(role))

    def save_snapshot(self, folder: Path) -> None:
        """Copy all data into a new folder."""
        self._thread.result(self._cluster.save_snapshot(folder))

    def load_snapshot(self, folder: Path) -> None:
        """Begin again with what was saved."""
        self._thread.result(self._cluster.load_snapshot(folder))

    def reset(self) -> None:
        """Begin again without any data."""
        self._thread.result(self._cluster.reset())

    # -- clients ----------------------------------------------------------------------------

    def producer(self, group: str = "test-producers", **options: Any) -> SyncProducer:
        """A producer, to be used in `with`. Options are those of `pocketmq.client.Producer`."""
        return SyncProducer(self._thread, group, **self._of_cluster(options))

    def transaction_producer(
        self,
        listener: TransactionListener,
        group: str = "test-transactions",
        **options: Any,
    ) -> sync.TransactionProducer:
        """A producer of transactions, to be used in `with`.

        `send_in_transaction` has the listener run the local transaction, in another thread; the
        broker's question goes to `check_local_transaction`, every 30 s of the cluster's time.
        """
        return sync.TransactionProducer(
            group, listener, loop_thread=self._thread, **self._of_cluster(options)
        )

    def admin(self, **options: Any) -> sync.Admin:
        """An admin client, to be used in `with`; it may do all."""
        options.setdefault("credentials", self._cluster.super_user)
        return sync.Admin(loop_thread=self._thread, **self._of_cluster(options))

    def consumer(
        self,
        group: str,
        topic: str,
        expression: str = "*",
        *,
        listener: MessageListener | None = None,
        orderly: bool = False,
        broadcast: bool = False,
        **options: Any,
    ) -> SyncConsumer:
        """A consumer, to be used in `with`. Options are those of `pocketmq.client.PushConsumer`.

        A new group begins with the first stored message, so that a test may send before the
        consumer owns its queues. Without a listener `receive` gives the messages one by one, and
        `send_back(message)` has one come again, as if a listener had failed.

        Args:
            group: Its full name, as `group_name` returns it.
            topic: Its full name, as `create_topic` returns it.
            expression: Tags such as `a || b`.
            listener: Called with each message, in another thread; what it raises means a retry.
            orderly: Messages of a queue come one by one, and a failed one again before the next.
            broadcast: This consumer gets every message, whatever others get; its offsets are in a
                file below `cluster.data`.

        Raises:
            CallerError: It is to be orderly without a listener.
        """
        if orderly and listener is None:
            raise CallerError("orderly=True needs a listener; give listener= as well")
        if broadcast:
            options["message_model"] = MessageModel.BROADCASTING
            # Within the cluster's data: otherwise a later run with the same group would find these
            # offsets.
            options.setdefault("local_offset_store_dir", self._cluster.data / "client-offsets")
        options.setdefault("consume_from_where", ConsumeFromWhere.FIRST_OFFSET)
        options = self._of_cluster(options)
        made = SyncConsumer(self._thread, group, topic, expression, hint=self._hint, **options)
        if listener is not None:
            made.listen(listener, orderly=orderly)
        return made

    def _of_cluster(self, options: dict[str, Any]) -> dict[str, Any]:
        """Let a client find the cluster, speak TLS where it does, and be one of its members."""
        options.setdefault("nameservers", self.nameservers)
        options.setdefault("events", self._cluster.control.events.clients.sink)
        roles = self._cluster.control.roles
        is_secured = roles.client_tls is not None
        if is_secured and not options.keys() & {"tls", "tls_ca_file", "network"}:
            # A test that sets TLS or a network itself may test just that: a wrong CA, or plaintext.
            options.update(tls=True, tls_ca_file=roles.ca_file)
            # Or a client without the secret: None.
            if roles.member_secret_file is not None:
                options.setdefault("member_secret_file", roles.member_secret_file)
        return options

    async def _hint(self) -> str:
        return await self._cluster.thread.run(self._cluster.control.hint())


class SyncGroup:
    """A `Group` for synchronous code."""

    def __init__(self, cluster: Cluster, thread: LoopThread, name: str) -> None:
        self._group = cluster.group(name)
        self._thread = thread

    @names_checked
    def assigned(self, *, members: int | None = None, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until each queue has an owner."""
        _check_no_client_waits("group(...).assigned")
        self._thread.result(self._group.assigned(members=members, limit_s=limit_s))

    @names_checked
    def consumed_all(self, *, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until the group has consumed all messages in its topics."""
        _check_no_client_waits("group(...).consumed_all")
        self._thread.result(self._group.consumed_all(limit_s=limit_s))

    @names_checked
    def reset(self, topic: str, *, time_ms: int = 0) -> None:
        """Have the group consume a topic again; see `Group.reset`."""
        self._thread.result(self._group.reset(topic, time_ms=time_ms))

    def state(self) -> GroupState:
        """Members, queues and offsets."""
        return self._thread.result(self._group.state())


def _check_no_client_waits(call: str) -> None:
    """Refuse to block an event loop in which clients run: they could do nothing meanwhile."""
    try:
        # Without a running loop nothing stands still when this thread blocks.
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if runs_clients(loop):
        raise CallerError(
            f"sync.{call} blocks the event loop in which the test's clients run, so the clients "
            f"would stand still; write `await cluster.{call}(...)`, without sync"
        )


@names_checked
@contextmanager
def start_cluster(
    *,
    brokers: int = 1,
    nameservers: int = 1,
    proxy: bool = False,
    clock: ClockKind = "real",
    mode: Mode = "in-process",
    profile: ProfileName = DEFAULT_PROFILE,
    host: str = "127.0.0.1",
    users: Mapping[str, str] | None = None,
    super_users: Mapping[str, str] | None = None,
    acl: Sequence[Rule] | None = None,
    tls: bool = False,
    members_must_prove: bool = False,
    strangers_read_routes: bool = False,
    data: Path | None = None,
) -> Iterator[Cluster]:
    """Start a cluster for a `with` block; it begins when every nameserver knows every broker.

    Args:
        brokers: broker-a, broker-b, ...
        nameservers: nameserver-1, ...
        proxy: A gRPC proxy for RocketMQ 5's SDKs, at `endpoints`; needs `pocketmq[grpc]`.
        clock: With `manual`, time only moves by `advance`.
        mode: `in-process`: each role in a thread of this process, on real sockets; `processes`:
            each one a process.
        profile: RocketMQ release whose rules apply.
        host: An address of this machine, on which all roles listen, and the control address.
        users: Name -> password (access key -> secret key) of those whose signed requests brokers
            take, and no others (docs/security.md); None: brokers look at no signature.
        super_users: The same of those that may do all.
        acl: What each of `users` may do, as `("shop", "Topic:orders", "Pub,Sub")`; None: all.
        tls: TLS on every port, and nothing else; `cluster.ca_file` is for its clients.
        members_must_prove: With `tls`: nameservers and replication take requests of processes only
            that know the cluster's secret (docs/members.md). Clients of `cluster.sync` know it;
            `cluster.member_secret_file` is for others.
        strangers_read_routes: With `members_must_prove`: nameservers tell everybody routes,
            clusters and names of topics, for clients that know no secret.
        data: Folder for the stores; by default they are removed at the end.

    Raises:
        ConfigError: An argument has a value that is not known.
        DiskError: The folder cannot be made.
        PocketMQError: A role could not start.
    """
    shape = ClusterShape(
        mode=mode,
        nameservers=nameservers,
        brokers=brokers,
        proxy=proxy,
        clock=clock,
        profile=profile,
        host=host,
        access=ClusterAccess.of(users, acl, super_users),
        tls=tls,
        members_must_prove=members_must_prove,
        strangers_read_routes=strangers_read_routes,
    )
    # Not one of pytest's folders: the caller may have no pytest.
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
                # Before the roles stop: otherwise the clients would try to reconnect to them.
                cluster.close_clients()
    finally:
        if data is None:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_control(shape: ClusterShape, data: Path) -> Iterator[tuple[ClusterControl, LoopThread]]:
    """The control of a running cluster, and the thread of its loop."""
    if shape.access is not None:
        # Kept with the stores, or users of a kept folder would have other keys at its next start.
        shape = replace(shape, access=shape.access.kept_in(data))
    with steered(_roles(shape, data), shape) as running:
        yield running


@contextmanager
def steered(roles: Roles, shape: ClusterShape) -> Iterator[tuple[ClusterControl, LoopThread]]:
    """The control of roles, from their start to their stop, and the thread of its loop."""
    role_logs.set_up()
    thread = LoopThread(f"pocketmq control {next(_numbers)}")
    try:
        control = ClusterControl(roles, shape.clock, access=shape.access)
        thread.result(control.start())
        nameservers = roles.nameserver_addresses
        # Warns of a usual mistake: a test sends before its consumer has queues, and the new group
        # silently skips those messages.
        skipped.watch(nameservers)
        try:
            yield control, thread
        finally:
            skipped.unwatch(nameservers)
            # Also when the test failed: nothing else ends the roles' threads or processes.
            thread.result(control.stop())
    finally:
        thread.stop()


def _roles(shape: ClusterShape, data: Path) -> Roles:
    if shape.mode == "processes":
        from pocketmq.cluster.steering.processes import RoleProcesses

        return RoleProcesses.of_shape(shape, data)
    from pocketmq.testing.in_process import RoleThreads

    return RoleThreads(shape, data)
