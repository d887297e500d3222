"""Which brokers a controller counts on (D-40, D-41)."""

from __future__ import annotations

from typing import cast

import pytest

from pocketmq.controller.election import Candidate
from pocketmq.controller.liveness import LiveBroker, LiveBrokers, LiveKey, timeout_s
from pocketmq.protocol.dispatch import Peer
from support.growth import least_s


def peer() -> Peer:
    """Only its identity counts."""
    return cast("Peer", object())


def replica(broker_id: int, seen_at: float = 0.0, channel: Peer | None = None) -> LiveBroker:
    return LiveBroker(
        key=LiveKey("a", broker_id),
        address=f"a-{broker_id}:1",
        candidate=Candidate(broker_id, 1, 100),
        confirm_offset=0,
        seen_at=seen_at,
        timeout_s=10.0,
        channel=channel or peer(),
    )


def ids(brokers: list[LiveBroker]) -> list[int]:
    return [each.key.broker_id for each in brokers]


def test_a_broker_is_dead_when_it_was_silent_for_longer_than_it_announced() -> None:  # D-40
    live = LiveBrokers()
    live.put(replica(1, seen_at=5.0))
    live.put(replica(2, seen_at=6.0))
    assert live.is_alive("a", 1, 15.0)
    assert not live.is_alive("a", 1, 15.001)
    for name, broker_id in (("a", None), ("a", 3), ("b", 1)):
        assert not live.is_alive(name, broker_id, 6.0)
    assert [each.broker_id for each in live.candidates("a", {3, 2, 1}, 15.0)] == [1, 2]
    assert [each.broker_id for each in live.candidates("a", {2, 1}, 15.5)] == [2]
    assert live.candidates("a", {1}, 15.5) == []
    assert ids(live.expire(15.0)) == []
    assert ids(live.expire(15.5)) == [1]
    assert (live.get(LiveKey("a", 1)), len(live)) == (None, 1)


def test_a_broker_whose_connection_closed_is_dead_after_the_grace() -> None:  # D-41
    live, shared = LiveBrokers(close_grace_s=3.0), peer()
    for each in (replica(1, channel=shared), replica(2), replica(3, channel=shared)):
        live.put(each)
    assert ids(live.closed(shared, now=1.0)) == [1, 3]
    assert live.is_alive("a", 1, 3.9)
    assert not live.is_alive("a", 1, 4.0)
    live.put(replica(1, seen_at=3.9))
    assert ids(live.expire(4.0)) == [3]
    at_once = LiveBrokers()
    at_once.put(replica(1, channel=shared))
    at_once.closed(shared, now=1.0)
    assert not at_once.is_alive("a", 1, 1.0)


@pytest.mark.parametrize(
    ("announced_ms", "silence_s"),
    [(None, 10.0), (0, 10.0), (-5, 10.0), (1, 0.001), (2_500, 2.5), (86_400_000, 3600.0)],
)
def test_the_silence_that_a_heartbeat_asks_for_has_bounds(
    announced_ms: int | None, silence_s: float
) -> None:  # D-40
    assert timeout_s(announced_ms) == silence_s


def test_the_end_of_a_connection_costs_the_same_beside_many_brokers() -> None:
    def end_s(others: int) -> float:
        live = LiveBrokers()
        for number in range(others):
            live.put(replica(number + 2))

        def step() -> None:
            channel = peer()
            live.put(replica(1, channel=channel))
            assert ids(live.closed(channel, now=0.0)) == [1]

        return least_s(step, runs=5, steps=50)

    assert end_s(20_000) < 10 * end_s(20)


def test_brokers_that_are_dead_leave_nothing_behind() -> None:
    live, shared = LiveBrokers(), peer()
    for each in (replica(1, channel=shared), replica(2, channel=shared), replica(1)):
        live.put(each)
    assert ids(live.closed(shared, now=1.0)) == [2]
    assert ids(live.expire(99.0)) == [1, 2]
    assert ids(live.closed(shared, now=100.0)) == []
    assert vars(live) == vars(LiveBrokers())
