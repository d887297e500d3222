"""What clusters of one broker name have around it (replicas/, acting/): a nameserver, and clients.

Each is in a process of its own. What these processes held is kept to the end of the run: nothing
collects it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pocketmq.client import Admin, ConsumeFromWhere, MessageExt, PushConsumer
from pocketmq.client.listener_threads import InlineThreads
from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.server import NameServer
from pocketmq.operation.events.sink import SinkMaker
from pocketmq.runtime.profile import PROFILE_5_X
from pocketmq.simulation.invariants import InvariantError
from pocketmq.simulation.loop import SimProcess, VirtualLoop
from pocketmq.simulation.loop_clock import LoopClock
from pocketmq.simulation.machines import NoKv, client_options
from pocketmq.simulation.network import SimNetwork

LOOK_S = 0.25


class NameServerAndClients:
    """Starts them.

    Args:
        loop: Virtual time.
        clock: The same, for whoever waits outside of all processes.
        network: Between all processes.
        events: Takes what happens at them.
    """

    def __init__(
        self, loop: VirtualLoop, clock: LoopClock, network: SimNetwork, events: SinkMaker
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._network = network
        self._events = events
        self._kept: list[object] = []

    async def start_nameserver(self, config: NameServerConfig) -> NameServer:
        """Start the nameserver; its process has its name."""
        process = SimProcess(self._loop, config.name)
        server = NameServer(
            config,
            process.clock,
            self._network,
            PROFILE_5_X,
            kv_storage=NoKv(),
            events=self._events(config.name, process.clock.time_ms),
        )
        await process.start(server.start(), config.name)
        self._kept.append(server)
        return server

    async def create_topic(self, topic: str, queues: int) -> None:
        """Create a topic as a tool does."""
        process = SimProcess(self._loop, "admin")

        async def create() -> None:
            async with Admin(**self.client_options(process)) as tool:
                await tool.create_topic(topic, queues=queues)

        await process.start(create(), "create topic")

    def start_consumer(
        self,
        name: str,
        group: str,
        topic: str,
        consumed: Callable[[MessageExt], None],
        *,
        orderly: bool = False,
    ) -> SimProcess:
        """Begin to start a consumer, which gets every message from the first one on; its process.

        Args:
            name: Of the process.
            group: Its consumer group.
            topic: What it consumes.
            consumed: Called with each message.
            orderly: Whether it locks its queues, and keeps their order.
        """
        process = SimProcess(self._loop, name)

        async def listener(messages: list[MessageExt], _context: Any) -> None:
            for message in messages:
                consumed(message)

        async def start() -> None:
            consumer = PushConsumer(
                group,
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                threads=InlineThreads(),
                **self.client_options(process),
            )
            consumer.subscribe(topic)
            consumer.listen_batch(listener, orderly=orderly)
            self._kept.append(consumer)
            await consumer.start()

        process.start(start(), f"start {name}")
        return process

    def client_options(self, process: SimProcess) -> dict[str, Any]:
        """Options of a client in a process."""
        return client_options(process, self._network, PROFILE_5_X, self._events)

    async def until(self, condition: Callable[[], bool], limit_s: float, what: str) -> None:
        """Wait until a condition holds.

        Args:
            condition: Asked again and again.
            limit_s: Virtual seconds.
            what: What is wrong while it does not hold.

        Raises:
            InvariantError: It does not hold within the limit.
        """
        until = self._loop.time() + limit_s
        while not condition():
            if self._loop.time() > until:
                raise InvariantError(
                    f"{self._loop.time():.3f} {what} within {limit_s:g} s of simulated time"
                )
            await self._clock.sleep(LOOK_S)
