"""`pocketmq watch --demo`: a small cluster with a producer and consumers, to look at and to break.

Its clock is manual and runs by itself at the speed of real time, so that the page can stop it, let
it run faster, and step to the next deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count

import structlog

from pocketmq.client import ConsumeFromWhere, Message, Producer, PushConsumer
from pocketmq.cluster.control_address.server import DEFAULT_PORT, ControlServer
from pocketmq.cluster.folder import data_folder
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.process import RoleContext, RoleOptions, run_role

TOPIC = "orders"
PRODUCERS = "shop"
CONSUMERS = "billing"
QUEUES = 4
"""On each broker."""
SEND_S = 0.12
"""Real seconds between two messages."""
WORK_S = 0.03
"""Real seconds in which a message is consumed."""
STAY_S = 12.0
"""Real seconds that the guest stays, and stays away."""

log = structlog.get_logger()
_real = SystemClock()


def run_watch_demo(show: Callable[[str], None], *, port: int = DEFAULT_PORT) -> int:
    """Run the cluster until SIGINT or SIGTERM; returns the exit status.

    Args:
        show: Called with the page's address when everything runs.
        port: Of the control address; if it is in use, another one.
    """
    options = ClusterOptions(nameservers=2, brokers=2, any_port=True, clock="manual")

    async def main(role: RoleContext) -> None:
        with data_folder(None) as folder:
            control = ClusterControl(
                RoleProcesses(Supervisor(cluster_spec(options, folder.path))), options.clock
            )
            try:
                await control.start()
                # Before the clients start, which would otherwise wait for its route.
                await control.create_topic(TOPIC, QUEUES)
                # At the speed of real time, but in steps, so that the page can stop it.
                await control.run_clock(1.0)
                async with ControlServer(control, port=port) as server, Clients(control):
                    show(f"{server.url}/watch")
                    await role.stopped()
            finally:
                await control.stop()

    return run_role(main, role="pocketmq", name="watch", options=RoleOptions(log_level="error"))


class Clients:
    """A producer, three consumers, and a guest that comes and goes, during an `async with` block.

    Args:
        control: Their cluster.
    """

    def __init__(self, control: ClusterControl) -> None:
        self._nameservers = control.nameservers
        self._events = control.events.clients.sink
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Clients:
        for number in (1, 2, 3):
            await self._stack.enter_async_context(self._consumer(f"consumer-{number}"))
        producer = Producer(
            PRODUCERS,
            nameservers=self._nameservers,
            instance_name="producer-1",
            events=self._events,
        )
        # Entered last, so it stops first, and consumers still get what it has sent.
        await self._stack.enter_async_context(producer)
        loop = asyncio.get_running_loop()
        for name, work in (("sender", self._send(producer)), ("guest", self._come_and_go())):
            self._tasks.append(loop.create_task(work, name=f"demo {name}"))
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        # Before the clients stop, as the tasks use them.
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    def _consumer(self, name: str) -> PushConsumer:
        consumer = PushConsumer(
            CONSUMERS,
            nameservers=self._nameservers,
            instance_name=name,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
            events=self._events,
        )
        consumer.subscribe(TOPIC)
        consumer.listen(_work)
        return consumer

    async def _send(self, producer: Producer) -> None:
        for number in count(1):
            message = Message(TOPIC, f"order {number}".encode(), keys=f"order-{number}")
            await _tried(partial(producer.send, message))
            await _real.sleep(SEND_S)

    async def _come_and_go(self) -> None:
        while True:
            await _real.sleep(STAY_S)
            guest = self._consumer("guest")
            await _tried(guest.start)
            try:
                await _real.sleep(STAY_S)
            finally:
                # Also after a cancellation: the guest must not remain a member.
                await _tried(guest.stop)


async def _work(_message: object) -> None:
    await _real.sleep(WORK_S)


async def _tried(action: Callable[[], Awaitable[object]]) -> None:
    """Do it; in a cluster that is broken for show it may fail, which the page shows."""
    try:
        await action()
    except PocketMQError as exc:
        log.debug("demo.failed", reason=str(exc))
