"""A fleet of groups is rebalanced with the client's strategies."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from pocketmq.pipeline.jobs.rebalance_fleet import Fleet, FleetStep, memberships, rebalance
from pocketmq.protocol.allocation.by_name import STRATEGIES
from pocketmq.protocol.allocation.preview import moved, preview
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError

FLEET = Fleet(groups=5, queues=37, consumers=6, brokers=3, steps=4, churn=0.3)


def test_every_queue_has_one_consumer_at_all_times() -> None:
    found = rebalance(FLEET, list(STRATEGIES))
    assert len(found) == 3 * 5
    for step in found:
        assert (step.groups, step.queues) == (5, 5 * 37)
        assert (step.unowned, step.doubled) == (0, 0)
        assert step.must_move <= step.moved <= step.queues
    by_name = {name: [step for step in found if step.strategy == name] for name in STRATEGIES}
    sizes = [(step.consumers, step.least, step.most) for step in by_name["averagely"]]
    assert sizes == [(30, 6, 7), (20, 9, 10), (30, 6, 7), (20, 9, 10), (30, 6, 7)]
    # Only what the leaving consumers had moves on the ring; the others rearrange more.
    leaving = by_name["consistent-hash"][1]
    assert leaving.moved == leaving.must_move > 0
    assert by_name["averagely"][1].moved > by_name["averagely"][1].must_move


def test_the_moves_are_those_of_the_groups_preview() -> None:
    fleet = Fleet(groups=1, queues=20, consumers=5, brokers=2, steps=2, churn=0.2)
    for name, make in STRATEGIES.items():
        queues = [MessageQueue("topic-0", f"broker-{at % 2}", at // 2) for at in range(20)]
        shares = [
            preview(lambda _, make=make: make(), queues, members)
            for _, members in memberships(fleet, 0)
        ]
        expected = [0, moved(shares[0], shares[1]), moved(shares[1], shares[2])]
        assert [step.moved for step in rebalance(fleet, [name])] == expected


def test_processes_find_what_one_finds() -> None:
    fleet = Fleet(groups=40, queues=8, consumers=3, steps=1)

    def facts(found: list[FleetStep]) -> list[dict[str, object]]:
        return [asdict(step) for step in found]

    seen: list[tuple[int, int]] = []
    shared = rebalance(
        fleet, ["circle"], workers=2, progress=lambda done, total: seen.append((done, total))
    )
    assert facts(shared) == facts(rebalance(fleet, ["circle"]))
    assert seen[-1] == (40, 40)


def test_a_fleet_without_consumers_is_refused() -> None:
    with pytest.raises(CallerError, match="0 consumers"):
        rebalance(Fleet(groups=1, queues=1, consumers=0), ["circle"])
