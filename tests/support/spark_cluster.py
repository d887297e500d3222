"""A cluster of processes for tests that are no coroutines, as Spark's are."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from pocketmq.client import Admin, Message, MessageQueue, Producer, SendResult
from pocketmq.cluster import Supervisor, local_cluster
from support.eventually import PATIENCE_MS, eventually

T = TypeVar("T")


class SparkCluster:
    """A running cluster, driven from outside any loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, supervisor: Supervisor) -> None:
        self.loop = loop
        self.supervisor = supervisor

    @property
    def nameservers(self) -> str:
        return self.supervisor.namesrv_addr

    def store(self, broker: str) -> Path:
        """Store root of a broker."""
        return self.supervisor.spec.data / broker

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the cluster's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout=300)

    def advance(self, seconds: float) -> None:
        """Move the clocks of a cluster that has manual ones."""
        assert self.run(self.supervisor.advance(seconds)) == []

    def create_topic(self, topic: str, *, queues: int = 4) -> None:
        """On every broker; returns when the name servers know it."""
        self.run(self._create_topic(topic, queues))

    async def _create_topic(self, topic: str, queues: int) -> None:
        async with self._admin() as admin:
            await admin.create_topic(topic, queues=queues)
            brokers = len(self.supervisor.of_role("broker"))

            async def is_known() -> bool:
                route = await admin.route(topic)
                return route is not None and len(route.queue_datas) == brokers

            await eventually(is_known, f"the name servers know {topic}")

    def shape_topic(self, topic: str, queues: int) -> None:
        """Give a topic more or fewer queues; returns when the name servers know it."""

        async def shape() -> None:
            async with self._admin() as admin:
                await admin.create_topic(topic, queues=queues)

                async def is_known() -> bool:
                    route = await admin.route(topic)
                    return route is not None and all(
                        each.read_queue_nums == queues for each in route.queue_datas
                    )

                await eventually(is_known, f"the name servers know {queues} queues of {topic}")

        self.run(shape())

    def remake_topic(self, topic: str, *, queues: int = 4) -> None:
        """Delete a topic with its messages, and create it again."""

        async def delete() -> None:
            async with self._admin() as admin:
                await admin.delete_topic(topic)

                async def is_gone() -> bool:
                    return await admin.route(topic) is None

                await eventually(is_gone, f"the name servers have forgotten {topic}")

        self.run(delete())
        self.create_topic(topic, queues=queues)

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL."""
        self.run(self.supervisor[name].kill())

    def restart(self, name: str) -> None:
        """Start a process that has ended, on its port and its files; brokers are known again."""
        self.run(self.supervisor.restart(name))
        brokers = [each.name for each in self.supervisor.of_role("broker") if each.is_alive]
        self.run(self.supervisor.wait_for_brokers(brokers))

    def wait_until_known(self, topic: str) -> None:
        """Until the name servers know it on every broker: those register twice a minute."""

        async def wait() -> None:
            brokers = len(self.supervisor.of_role("broker"))
            async with self._admin() as admin:

                async def is_known() -> bool:
                    route = await admin.route(topic)
                    return route is not None and len(route.queue_datas) == brokers

                what = f"the name servers know {topic} again"
                await eventually(is_known, what, limit_s=110)

        self.run(wait())

    def wait_until_unknown(self, topic: str) -> None:
        """Until no name server knows a route of the topic."""

        async def wait() -> None:
            async with self._admin() as admin:

                async def is_gone() -> bool:
                    return await admin.route(topic) is None

                await eventually(is_gone, f"the name servers have forgotten {topic}")

        self.run(wait())

    def send(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None
    ) -> list[MessageQueue]:
        """Send one by one, in order; the queues that took them."""
        return [each.queue for each in self.deliver(messages, queue=queue)]

    def deliver(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None
    ) -> list[SendResult]:
        """Send one by one, in order; where each is stored."""
        return self.run(self._send(messages, queue))

    async def _send(
        self, messages: Sequence[Message], queue: MessageQueue | None
    ) -> list[SendResult]:
        # a send that is given up is sent again, and may then be stored twice
        async with Producer(
            "spark-tests", nameservers=self.nameservers, send_timeout_ms=60_000
        ) as producer:
            sent = []
            for start in range(0, len(messages), 256):
                part = messages[start : start + 256]
                sent += await asyncio.gather(*(producer.send(each, queue=queue) for each in part))
        return sent

    def _admin(self) -> Admin:
        return Admin(nameservers=self.nameservers, api_timeout_ms=PATIENCE_MS)

    def queues(self, topic: str) -> list[MessageQueue]:
        """Queues to read."""

        async def ask() -> list[MessageQueue]:
            async with self._admin() as admin:
                return await admin.subscribe_queues(topic)

        return self.run(ask())


@contextmanager
def spark_cluster(
    data: Path,
    *,
    brokers: int = 2,
    broker_arguments: Sequence[str] = (),
    clock: Literal["real", "manual"] = "real",
) -> Iterator[SparkCluster]:
    """A cluster for the length of a block."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="cluster-loop", daemon=True)
    thread.start()
    manager = local_cluster(
        brokers=brokers, data=data, broker_arguments=broker_arguments, clock=clock
    )

    def run(coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(timeout=300)

    supervisor = run(manager.__aenter__())
    try:
        yield SparkCluster(loop, supervisor)
    finally:
        run(manager.__aexit__(None, None, None))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
