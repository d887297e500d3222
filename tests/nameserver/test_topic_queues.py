"""Queues of topics by broker: what they cost where there are many of others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pocketmq.nameserver.topic_queues import TopicQueues
from pocketmq.protocol.bodies.route import QueueData
from pocketmq.protocol.scalars import Perm
from support.growth import least_s
from support.nameserver_rig import topic_configs


def entered(queues: TopicQueues, broker_name: str, *topics: str) -> None:
    configs = topic_configs(topics)
    queues.enter(broker_name, configs, all_of_them=True, read_only=False)


def comes_and_goes(queues: TopicQueues) -> None:
    entered(queues, "one", "T0", "only here")
    queues.forget("one")
    assert not queues.of("only here")


def leaves_topics_out(queues: TopicQueues) -> None:
    entered(queues, "one", "T0", "only here")
    queues.forget("one", keep={"T0"})


def loses_write_permission(queues: TopicQueues) -> None:
    entered(queues, "one", "T0")
    assert queues.set_perm("one", keep=~Perm.WRITE, add=0) == 1


def is_counted(queues: TopicQueues) -> None:
    before = queues.count
    queues.put(
        "only here", QueueData(broker_name="one", read_queue_nums=1, write_queue_nums=1, perm=6)
    )
    assert queues.count == before + 1
    queues.delete("only here")
    assert queues.count == before


@pytest.mark.parametrize(
    "step", [comes_and_goes, leaves_topics_out, loses_write_permission, is_counted]
)
def test_a_broker_costs_the_same_beside_many_topics_of_others(
    step: Callable[[TopicQueues], None],
) -> None:
    def step_s(topics: int) -> float:
        queues = TopicQueues()
        entered(queues, "other", *(f"T{number}" for number in range(topics)))
        return least_s(lambda: step(queues), runs=5, steps=50)

    assert step_s(20_000) < 10 * step_s(20)


def test_all_that_is_entered_can_go_and_leaves_nothing_behind() -> None:
    queues = TopicQueues()
    for name in ("one", "two"):
        entered(queues, name, "T0", f"of {name}")
    entered(queues, "one", "T0")
    assert queues.count == 4
    queues.delete("T0", ["one", "nobody"])
    queues.delete("unknown")
    assert (queues.count, list(queues.of("T0"))) == (3, ["two"])
    queues.forget("one", keep={"T0"})
    queues.forget("nobody")
    assert (queues.count, queues.topics()) == (2, ["T0", "of two"])
    queues.forget("two")
    assert vars(queues) == vars(TopicQueues())
