"""A cluster whose calls block, for tests without an event loop: `cluster.sync`.

Its clients are those of `pocketmq.client.sync`, in the thread of a loop that all clients of the
cluster share; any thread may call them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.client import (
    ConsumeFromWhere,
    MessageExt,
    MessageModel,
    TransactionListener,
    sync,
)
from pocketmq.client.consumer.consuming.listener import MessageListener
from pocketmq.client.instances import runs_clients
from pocketmq.cluster.durations import as_number
from pocketmq.cluster.steering.errors import NotReachedError
from pocketmq.cluster.steering.group_state import GroupState
from pocketmq.cluster.steering.waiting import WAIT_LIMIT_S
from pocketmq.protocol.scalars import MessageType
from pocketmq.runtime.errors import CallerError
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.testing.sync_clients import SyncConsumer, SyncProducer

if TYPE_CHECKING:
    from pocketmq.testing.cluster import Cluster, Faults

CLUSTER_TIME = "it does not hold; this is cluster time"
"""Why a condition did not come true within a limit."""


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

    def create_topic(
        self, name: str, *, queues: int = 4, message_type: MessageType | None = None
    ) -> str:
        """Create a topic; returns its full name when every nameserver has its route."""
        return self._thread.result(
            self._cluster.create_topic(name, queues=queues, message_type=message_type)
        )

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

    def advance(self, seconds: float | str = 0, *, minutes: float = 0, hours: float = 0) -> None:
        """Move the clocks of all roles and clients; `"2h"` is a duration too.

        Raises:
            CallerError: Clients run in the caller's event loop, which would stand still meanwhile.
        """
        _check_no_client_waits("advance")
        self._thread.result(self._cluster.advance(seconds, minutes=minutes, hours=hours))

    def advance_until(self, condition: Callable[[], bool], *, limit_s: float = 3600.0) -> float:
        """Move time from deadline to deadline until a condition holds.

        The condition is called in the calling thread, so it may use the other calls here.

        Raises:
            NotReachedError: The condition did not hold after `limit_s`.
            CallerError: Clients run in the caller's event loop, which would stand still meanwhile.
        """
        _check_no_client_waits("advance_until")
        name = getattr(condition, "__name__", repr(condition))
        if inspect.iscoroutinefunction(condition):
            raise CallerError(
                f"{name} is a coroutine function; write a plain one, or await "
                "cluster.advance_until(...), without sync"
            )
        began_ms = self.time_ms
        until_ms = began_ms + round(as_number("limit_s", limit_s) * 1000)
        self.advance(0)
        while not condition():
            if self.time_ms >= until_ms:
                pending = self._cluster.thread.result(self._cluster.control.pending())
                raise NotReachedError(name, limit_s, f"{CLUSTER_TIME}{pending}")
            control = self._cluster.control
            self._cluster.thread.result(control.step(until_ms))
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
            raise CallerError("only a listener gets messages in order; give listener= as well")
        if broadcast:
            options["message_model"] = MessageModel.BROADCASTING
            options.setdefault("local_offset_store_dir", self._cluster.data / "client-offsets")
        options.setdefault("consume_from_where", ConsumeFromWhere.FIRST_OFFSET)
        options = self._of_cluster(options)
        made = SyncConsumer(self._thread, group, topic, expression, hint=self._hint, **options)
        if listener is not None:
            made.listen(listener, orderly=orderly)
        return made

    def _of_cluster(self, options: dict[str, Any]) -> dict[str, Any]:
        """Let a client find the cluster, and speak TLS where it does."""
        options.setdefault("nameservers", self.nameservers)
        options.setdefault("events", self._cluster.control.events.clients.sink)
        is_secured = self._cluster.control.roles.client_tls is not None
        if is_secured and not options.keys() & {"tls", "tls_ca_file", "network"}:
            options.update(tls=True, tls_ca_file=self._cluster.ca_file)
        return options

    async def _hint(self) -> str:
        return await self._cluster.thread.run(self._cluster.control.hint())


class SyncGroup:
    """A `Group` for synchronous code."""

    def __init__(self, cluster: Cluster, thread: LoopThread, name: str) -> None:
        self._group = cluster.group(name)
        self._thread = thread

    def assigned(self, *, members: int | None = None, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until each queue has an owner."""
        _check_no_client_waits("group(...).assigned")
        self._thread.result(self._group.assigned(members=members, limit_s=limit_s))

    def consumed_all(self, *, limit_s: float = WAIT_LIMIT_S) -> None:
        """Wait until the group has consumed all messages in its topics."""
        _check_no_client_waits("group(...).consumed_all")
        self._thread.result(self._group.consumed_all(limit_s=limit_s))

    def reset(self, topic: str, *, time_ms: int = 0) -> None:
        """Have the group consume a topic again; see `Group.reset`."""
        self._thread.result(self._group.reset(topic, time_ms=time_ms))

    def state(self) -> GroupState:
        """Members, queues and offsets."""
        return self._thread.result(self._group.state())


def _check_no_client_waits(call: str) -> None:
    """Refuse to block an event loop in which clients run: they could do nothing meanwhile."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    if runs_clients(loop):
        raise CallerError(
            f"sync.{call} blocks the event loop in which the test's clients run, so they would "
            f"stand still; write `await cluster.{call}(...)`, without sync"
        )
