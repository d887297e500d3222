"""Consumers of many queues: what one of them costs must not grow with the others."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from pocketmq.client import MessageQueue
from pocketmq.client.consumer.membership.subscriptions import Subscriptions
from pocketmq.client.consumer.pull.lite_queues import Assigned, LiteQueues
from pocketmq.client.consumer.pull.lite_settings import LitePullSettings
from pocketmq.client.consumer.push.assigned_pops import PopQueues
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.pulling.pull_plan import PullRequest
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.rebalance.rebalancer import BrokerShare
from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.growth import least_s


def member() -> Any:
    clock = ManualClock(0)
    return SimpleNamespace(
        group="g",
        subscriptions=Subscriptions(clock.time_ms),
        state=SimpleNamespace(running=True, suspended=False),
        instance=SimpleNamespace(
            clock=clock,
            profile=SimpleNamespace(client=SimpleNamespace(first_pull_delay_ms=500)),
        ),
    )


def test_queues_that_stay_assigned_cost_the_same_each_however_many_they_are() -> None:
    def follow_s(count: int) -> float:
        """Seconds for each queue."""
        planner = RebalancePlanner("g", "c", AllocateMessageQueueAveragely())
        made: Any = LiteQueues
        queues = made(member(), LitePullSettings(), planner, None, None, None)
        wanted = [MessageQueue("T", "a", number) for number in range(count)]
        for queue in wanted:
            buffer = ProcessQueue(planner.take(queue, 0.0), 0.0)
            queues.assigned[queue] = Assigned(PullRequest(buffer, 0))

        def step() -> None:
            with suppress(StopIteration):  # nothing has to be waited for
                queues.follow(wanted).send(None)
            assert len(queues.assigned) == count

        return least_s(step, runs=5, steps=2) / count

    assert follow_s(4_000) < 5 * follow_s(200)


async def test_a_topic_that_is_popped_costs_the_same_beside_many_others() -> None:
    async def take_s(topics: int) -> float:
        made: Any = PopQueues
        pops = made(member(), None, "AVG", None, None, None)
        shares = {
            f"T{number}": BrokerShare((), (MessageQueue(f"T{number}", "a", -1),))
            for number in range(topics)
        }
        for topic, share in shares.items():
            assert pops.take(topic, share)

        def step() -> None:
            assert not pops.take("T7", shares["T7"])

        took_s = least_s(step, runs=5, steps=50)
        pops.take_only(["T7"])
        assert pops.owned == [MessageQueue("T7", "a", -1)]
        await pops.stop()
        assert pops.owned == []
        return took_s

    assert await take_s(4_000) < 10 * await take_s(10)
