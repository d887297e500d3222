"""A cluster that is a few lists, behind the pipeline's real client: for plans without processes.

Tests change it between two calls as they like: masters go, logs get shorter, topics are made anew.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from pocketmq.pipeline.progress.checkpoint import Mark
from pocketmq.pipeline.progress.stream_plan import StreamPlan
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.protocol.bodies.route import MASTER_ID, BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.messages.message import MessageQueue
from support.strategies import RecordFields

READ_AND_WRITE = 6


@dataclass
class FakeQueue:
    """The messages of a queue; its offsets below `low` are not stored any more."""

    messages: list[Mark] = field(default_factory=list)
    low: int = 0

    def copy(self) -> FakeQueue:
        return FakeQueue(list(self.messages), self.low)


@dataclass
class FakeBroker:
    """One process: its queues, and whether it answers."""

    name: str
    broker_id: int = MASTER_ID
    queues: dict[MessageQueue, FakeQueue] = field(default_factory=dict)
    is_busy: bool = False
    """Whether it refuses pulls."""

    @property
    def address(self) -> str:
        return f"{self.name}:{self.broker_id}"

    is_open = True

    def request(self, header: PullMessageRequestHeader, **_: Any) -> asyncio.Future[Command]:
        """Answer a pull of one message."""
        answer: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        queue = self.queues[MessageQueue(header.topic, self.name, header.queue_id)]
        at, end = header.queue_offset, len(queue.messages)
        if queue.low <= at < end:
            code, mark = ResponseCode.SUCCESS, queue.messages[at]
            record = RecordFields(
                queue_offset=at, physical_offset=mark.position, store_timestamp_ms=mark.store_ms
            )
            body = record.encode()
        else:
            code, body = ResponseCode.PULL_OFFSET_MOVED, b""
        if self.is_busy:
            code, body = ResponseCode.SYSTEM_BUSY, b""
        told = PullMessageResponseHeader(
            suggest_which_broker_id=0,
            next_begin_offset=at + 1,
            min_offset=queue.low,
            max_offset=end,
        )
        answer.set_result(Command(code, told, body, remark=""))
        return answer


class FakeTopics:
    """The cluster. Messages get store times and places as they come, from one clock and one log."""

    def __init__(self) -> None:
        self.brokers: list[FakeBroker] = [FakeBroker("a")]
        self.now_ms = 1_000
        self.shows_acting = False
        """Whether routes show slaves as masters where there are none."""

    def broker(self, name: str = "a") -> FakeBroker:
        """A master, by name."""
        return next(
            each for each in self.brokers if each.name == name and each.broker_id == MASTER_ID
        )

    def queue(self, topic: str = "T", broker: str = "a", number: int = 0) -> FakeQueue:
        queues = self.broker(broker).queues
        return queues.setdefault(MessageQueue(topic, broker, number), FakeQueue())

    def send(self, count: int, topic: str = "T", broker: str = "a", number: int = 0) -> None:
        queue = self.queue(topic, broker, number)
        for _ in range(count):
            self.now_ms += 10
            queue.messages.append(Mark(self.now_ms, self.now_ms * 7))

    def cut(self, count: int, topic: str = "T", broker: str = "a", number: int = 0) -> None:
        """A slave that lacks the last messages has become master."""
        del self.queue(topic, broker, number).messages[-count:]

    def remake(self, topic: str = "T", broker: str = "a", number: int = 0) -> None:
        """The topic is deleted and created again."""
        self.broker(broker).queues[MessageQueue(topic, broker, number)] = FakeQueue()

    def rename(self, broker: str, name: str) -> None:
        """A broker starts on the same store under another name."""
        process = self.broker(broker)
        process.name = name
        process.queues = {
            MessageQueue(queue.topic, name, queue.queue_id): stored
            for queue, stored in process.queues.items()
        }

    def route(self, topic: str) -> TopicRouteData | None:
        """What a name server says of a topic."""
        names = {
            each.name for each in self.brokers if any(queue.topic == topic for queue in each.queues)
        }
        route = TopicRouteData()
        for name in sorted(names):
            group = [each for each in self.brokers if each.name == name]
            addresses = {each.broker_id: each.address for each in group}
            if self.shows_acting and MASTER_ID not in addresses:
                addresses[MASTER_ID] = addresses.pop(min(addresses))
            ids = [queue.queue_id for queue in group[0].queues if queue.topic == topic]
            count = max(ids) + 1
            route.broker_datas.append(
                BrokerData(
                    cluster="c",
                    broker_name=name,
                    broker_addrs=addresses,
                    enable_acting_master=self.shows_acting,
                )
            )
            route.queue_datas.append(
                QueueData(
                    broker_name=name,
                    read_queue_nums=count,
                    write_queue_nums=count,
                    perm=READ_AND_WRITE,
                )
            )
        return route if names else None


class FakeClient(ClusterClient):
    """The pipeline's client, whose questions this cluster answers."""

    def __init__(self, settings: ReadSettings, cluster: FakeTopics) -> None:
        super().__init__(settings.access)
        self.cluster = cluster
        self.api = FakeApi(cluster)  # type: ignore[assignment]
        self.remoting = SimpleNamespace(open_channel=self._at)  # type: ignore[assignment]

    def _at(self, address: str) -> FakeBroker | None:
        return next((each for each in self.cluster.brokers if each.address == address), None)

    async def own_topics(self) -> set[str]:
        return set()

    async def topics(self) -> list[str]:
        return sorted({queue.topic for each in self.cluster.brokers for queue in each.queues})

    async def masters(self) -> dict[str, str]:
        return {
            each.name: each.address for each in self.cluster.brokers if each.broker_id == MASTER_ID
        }


class FakeApi:
    """What a client asks processes."""

    def __init__(self, cluster: FakeTopics) -> None:
        self.cluster = cluster

    def _at(self, address: str) -> FakeBroker:
        return next(each for each in self.cluster.brokers if each.address == address)

    async def route(self, topic: str) -> TopicRouteData | None:
        return self.cluster.route(topic)

    async def channel(self, address: str) -> FakeBroker:
        return self._at(address)

    async def min_offset(self, address: str, queue: MessageQueue) -> int:
        return self._at(address).queues.get(queue, FakeQueue()).low

    async def max_offset(self, address: str, queue: MessageQueue) -> int:
        return len(self._at(address).queues.get(queue, FakeQueue()).messages)


def fake_plan(cluster: FakeTopics, topic: str = "T", **options: str) -> StreamPlan:
    """A stream's plan, as a process of a query has it; another one is that of a restart."""
    given = {"nameServer": "127.0.0.1:1", "retries": "2", "retryIntervalMs": "0"}
    given |= {"topic": topic, "startingOffsets": "earliest", **options}
    given = {name: value for name, value in given.items() if value}
    settings = ReadSettings(given, streaming=True)
    return StreamPlan(FakeClient(settings, cluster), settings)
