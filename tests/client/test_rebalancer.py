"""A rebalance carries out what its planner says, as long as nobody stops it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pocketmq.client import MessageQueue
from pocketmq.client.rebalance.rebalancer import BrokerShare, Rebalancer
from pocketmq.protocol.allocation.steps import (
    DropQueue,
    QueueReleased,
    StartFound,
    StartPulling,
)
from pocketmq.runtime.manual_time.manual_clock import ManualClock

QUEUE = MessageQueue("T", "a", 0)


class Planner:
    """Says what it was told to, and keeps what it hears."""

    group, client_id, broadcasting, is_balanced = "group", "me", False, True

    def __init__(self) -> None:
        self.says: dict[str, list[object]] = {}
        self.heard: list[object] = []
        self.claims: dict[MessageQueue, object] = {}

    def on(self, event: object, _now: float) -> list[object]:
        self.heard.append(event)
        return self.says.pop(type(event).__name__, [])

    def owned(self, _topic: str) -> list[MessageQueue]:
        return []


class Brokers:
    """Share queues out, and are told what is popped."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.only: list[list[str]] = []
        self.when_asked: Any = lambda: None

    async def ask(self, topic: str) -> BrokerShare:
        self.asked.append(topic)
        self.when_asked()
        return BrokerShare((), ())

    def take(self, _topic: str, _share: BrokerShare) -> bool:
        return False

    def take_only(self, topics: list[str]) -> None:
        self.only.append(list(topics))


class World:
    """A rebalancer and what is around it."""

    def __init__(self) -> None:
        self.planner, self.brokers = Planner(), Brokers()
        self.pulled: list[tuple[object, int]] = []
        consumer: Any = SimpleNamespace(
            start_pulling=lambda claim, offset: self.pulled.append((claim, offset))
        )
        nobody: Any = None
        planner: Any = self.planner
        allocation: Any = self.brokers
        self.rebalancer = Rebalancer(
            planner, consumer, api=nobody, addresses=nobody, clock=ManualClock(0),
            allocation=allocation,
        )  # fmt: skip


async def test_what_is_popped_of_topics_that_were_left_ends_with_the_round() -> None:  # C-26
    world = World()
    assert await world.rebalancer.run(["T", "U"])
    assert world.brokers.asked == ["T", "U"]
    assert world.brokers.only == [["T", "U"]]


async def test_a_round_ends_where_it_is_stopped() -> None:
    world = World()
    world.brokers.when_asked = world.rebalancer.stop
    assert await world.rebalancer.run(["T", "U"])
    assert (world.brokers.asked, world.brokers.only) == (["T"], [])


async def test_a_queue_whose_claim_is_gone_is_released() -> None:
    world = World()
    world.planner.says["SubscriptionsAre"] = [DropQueue(QUEUE, "left")]
    await world.rebalancer.run([])
    assert QueueReleased(QUEUE) in world.planner.heard


async def test_only_what_is_claimed_is_pulled() -> None:  # C-25.4
    world = World()
    world.planner.says["SubscriptionsAre"] = [StartPulling(QUEUE, 7)]
    await world.rebalancer.run([])
    assert world.pulled == []
    world.planner.claims[QUEUE] = "claim"
    world.planner.says["SubscriptionsAre"] = [StartPulling(QUEUE, 7)]
    await world.rebalancer.run([])
    assert world.pulled == [("claim", 7)]
    assert StartFound(QUEUE, 7) not in world.planner.heard
