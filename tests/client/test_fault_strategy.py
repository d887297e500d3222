"""Which broker a producer avoids, by both profiles' rules."""

from __future__ import annotations

import pytest

from pocketmq.client.producer.fault_strategy import FaultStrategy, FaultTable
from pocketmq.client.routes import TopicPublishInfo
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_X, Profile
from support.growth import least_s

BOTH = pytest.mark.parametrize("profile", [PROFILE_4_9, PROFILE_5_X], ids=lambda p: p.name)


def info(*brokers: str, queues: int = 2) -> TopicPublishInfo:
    listed = [MessageQueue("T", name, i) for name in brokers for i in range(queues)]
    return TopicPublishInfo("T", listed, write_queue_nums=dict.fromkeys(brokers, queues))


def chosen(strategy: FaultStrategy, topic: TopicPublishInfo, now: float, n: int = 8) -> set[str]:
    return {strategy.choose(topic, None, now).broker_name for _ in range(n)}


@BOTH
def test_off_by_default_only_the_last_broker_is_avoided(profile: Profile) -> None:  # P-31, P-37
    strategy = FaultStrategy(profile.client)
    topic = info("a", "b")
    strategy.remoting_failed("a", 10, 0.0)
    assert strategy.table.items == {}
    assert chosen(strategy, topic, 0.0) == {"a", "b"}
    assert {strategy.choose(topic, "a", 0.0).broker_name for _ in range(8)} == {"b"}
    assert strategy.choose(info("a"), "a", 0.0).broker_name == "a"  # there is no other


@pytest.mark.parametrize(
    ("profile", "latency_ms", "avoid_ms"),
    [
        (PROFILE_4_9, 49, 0),
        (PROFILE_4_9, 549, 0),
        (PROFILE_4_9, 550, 30_000),  # the comparison is >=
        (PROFILE_4_9, 1_000, 60_000),
        (PROFILE_4_9, 2_000, 120_000),
        (PROFILE_4_9, 3_000, 180_000),
        (PROFILE_4_9, 15_000, 600_000),
        (PROFILE_5_X, 549, 0),
        (PROFILE_5_X, 550, 2_000),
        (PROFILE_5_X, 1_800, 5_000),
        (PROFILE_5_X, 3_000, 6_000),
        (PROFILE_5_X, 5_000, 10_000),
        (PROFILE_5_X, 15_000, 30_000),
    ],
)
def test_slow_brokers_are_avoided_for_so_long(
    profile: Profile, latency_ms: int, avoid_ms: int
) -> None:  # P-34
    strategy = FaultStrategy(profile.client, enabled=True)
    strategy.answered("a", latency_ms, 100.0)
    table = strategy.table
    assert table.is_available("a", 100.0 + avoid_ms / 1000)
    if avoid_ms:
        assert not table.is_available("a", 100.0 + avoid_ms / 1000 - 0.001)


@pytest.mark.parametrize(("profile", "avoid_s"), [(PROFILE_4_9, 600.0), (PROFILE_5_X, 10.0)])
def test_a_failed_broker_is_isolated(profile: Profile, avoid_s: float) -> None:  # P-35
    for fail in ("remoting_failed", "broker_failed"):
        strategy = FaultStrategy(profile.client, enabled=True)
        getattr(strategy, fail)("a", 1, 0.0)
        assert not strategy.table.is_available("a", avoid_s - 0.001)
        assert strategy.table.is_available("a", avoid_s)
        assert chosen(strategy, info("a", "b"), 1.0) == {"b"}


def test_in_4_9_a_good_send_frees_the_broker_at_once() -> None:  # P-36
    strategy = FaultStrategy(PROFILE_4_9.client, enabled=True)
    strategy.remoting_failed("a", 1, 0.0)
    strategy.answered("a", 1, 1.0)
    assert strategy.table.is_available("a", 1.0)


def test_in_5_x_the_recovery_time_is_only_put_off() -> None:  # P-36
    strategy = FaultStrategy(PROFILE_5_X.client, enabled=True)
    strategy.remoting_failed("a", 1, 0.0)
    strategy.answered("a", 1, 1.0)
    assert not strategy.table.is_available("a", 9.9)
    strategy.answered("a", 600, 1.0)  # 2 s from now is sooner: no change
    assert not strategy.table.is_available("a", 9.9)
    strategy.remoting_failed("a", 1, 5.0)
    assert not strategy.table.is_available("a", 14.9)
    assert strategy.table.is_available("a", 15.0)


def test_in_5_x_choice_goes_available_reachable_then_any() -> None:  # P-33
    strategy = FaultStrategy(PROFILE_5_X.client, enabled=True)
    topic = info("a", "b", "c")
    strategy.remoting_failed("a", 1, 0.0)  # unavailable, reachable without a detector
    strategy.broker_failed("b", 1, 0.0)  # unavailable and unreachable
    assert chosen(strategy, topic, 1.0) == {"c"}
    assert {strategy.choose(topic, "c", 1.0, retry=True).broker_name for _ in range(9)} == {"a"}
    strategy.broker_failed("c", 1, 0.0)
    strategy.broker_failed("a", 1, 0.0)
    assert chosen(strategy, topic, 1.0, 60) == {"a", "b", "c"}


def test_with_a_detector_a_remoting_error_is_unreachable() -> None:  # P-37
    strategy = FaultStrategy(PROFILE_5_X.client, enabled=True, detector_enabled=True)
    strategy.remoting_failed("a", 1, 0.0)
    strategy.answered("b", 1, 0.0)
    assert list(strategy.unreachable_brokers()) == ["a"]
    strategy.reached("a")
    strategy.reached("c")  # of which nothing was ever heard
    assert list(strategy.unreachable_brokers()) == []


def test_in_4_9_the_better_half_serves_when_all_are_avoided() -> None:  # P-32
    strategy = FaultStrategy(PROFILE_4_9.client, enabled=True)
    topic = info("a", "b", "c", "d")
    for name, latency in (("a", 40), ("b", 30), ("c", 20), ("d", 10)):
        strategy.remoting_failed(name, latency, 0.0)
    assert chosen(strategy, topic, 1.0, 20) == {"c", "d"}


def test_in_4_9_a_broker_without_write_queues_leaves_the_table() -> None:  # P-32
    strategy = FaultStrategy(PROFILE_4_9.client, enabled=True)
    strategy.remoting_failed("gone", 1, 0.0)
    strategy.remoting_failed("a", 100, 0.0)
    assert strategy.choose(info("a"), None, 1.0).broker_name == "a"
    assert "gone" not in strategy.table.items


def test_in_4_9_the_last_broker_does_not_matter() -> None:  # P-32
    strategy = FaultStrategy(PROFILE_4_9.client, enabled=True)
    topic = info("a", "b")
    assert {strategy.choose(topic, "a", 0.0).broker_name for _ in range(8)} == {"a", "b"}


def test_the_better_half_of_nobody_is_nobody() -> None:  # P-32
    table = FaultTable(only_extends=False)
    assert table.pick_one_at_least(0.0) is None
    table.update("a", 1, 0, 0.0, reachable=True)
    assert table.pick_one_at_least(0.0) == "a"


def test_a_slower_answer_makes_a_broker_the_worse_one() -> None:  # P-32
    table = FaultTable(only_extends=False)
    for name, latency_ms in [("a", 1), ("b", 2), ("a", 3)]:
        table.update(name, latency_ms, 0, 0.0, reachable=True)
    assert {table.pick_one_at_least(0.0) for _ in range(4)} == {"b"}


def test_available_brokers_come_before_faster_ones() -> None:  # P-32
    table = FaultTable(only_extends=False)
    table.update("fast", 1, 10_000, 0.0, reachable=True)
    table.update("slow", 500, 0, 0.0, reachable=True)
    assert {table.pick_one_at_least(1.0) for _ in range(4)} == {"slow"}


def test_the_better_half_takes_turns_from_its_second_on() -> None:  # P-32
    table = FaultTable(only_extends=False)
    for number, name in enumerate("abcd"):
        table.update(name, number, 1000, 0.0, reachable=True)
    assert [table.pick_one_at_least(0.0) for _ in range(4)] == ["b", "a", "b", "a"]


def test_in_5_x_a_try_without_avoidance_changes_no_time() -> None:  # P-36
    table = FaultTable(only_extends=True)
    table.update("a", 1, 0, 0.0, reachable=True)
    table.update("a", 1, 0, 100.0, reachable=True)
    assert table.items["a"].available_at == 0.0
    table.update("a", 1, 1, 100.0, reachable=True)
    assert table.items["a"].available_at == 100.001


def test_in_5_x_a_second_try_begins_at_a_random_queue() -> None:  # P-33
    class Topic(TopicPublishInfo):
        drawn = 0

        def randomise(self) -> None:
            self.drawn += 1

    listed = [MessageQueue("T", "a", i) for i in range(4)]
    topic = Topic("T", listed, write_queue_nums={"a": 4})
    strategy = FaultStrategy(PROFILE_5_X.client, enabled=True)
    strategy.choose(topic, None, 0.0)
    assert topic.drawn == 0
    strategy.choose(topic, "a", 0.0, retry=True)
    assert topic.drawn == 1


def test_in_4_9_a_broker_without_write_queues_is_forgotten() -> None:  # P-32
    strategy = FaultStrategy(PROFILE_4_9.client, enabled=True)
    topic = TopicPublishInfo("T", [MessageQueue("T", "b", 0)], write_queue_nums={"b": 1})
    strategy.remoting_failed("gone", 1, 0.0)
    strategy.remoting_failed("b", 600, 0.0)
    strategy.remoting_failed("b2", 700, 0.0)
    assert strategy.choose(topic, None, 0.0).broker_name == "b"
    assert "gone" not in strategy.table.items


def test_in_4_9_one_write_queue_is_enough() -> None:  # P-32
    strategy = FaultStrategy(PROFILE_4_9.client, enabled=True)
    topic = TopicPublishInfo("T", [MessageQueue("T", "b", 0)], write_queue_nums={"b": 1})
    strategy.remoting_failed("b", 1, 0.0)
    assert strategy.choose(topic, None, 0.0) == MessageQueue("T", "b", 0)
    assert "b" in strategy.table.items


@BOTH
def test_a_send_costs_the_same_with_many_queues_while_every_broker_is_avoided(
    profile: Profile,
) -> None:
    def choose_s(queues: int) -> float:
        strategy, topic = FaultStrategy(profile.client, enabled=True), info("a", "b", queues=queues)
        for name in ("a", "b"):
            strategy.broker_failed(name, 10, 0.0)
        return least_s(lambda: strategy.choose(topic, None, 0.0), runs=5, steps=50)

    assert choose_s(10_000) < 10 * choose_s(4)


@BOTH
def test_queues_take_turns_also_while_every_broker_is_avoided(profile: Profile) -> None:
    strategy, topic = FaultStrategy(profile.client, enabled=True), info("a", "b", "c", queues=4)
    for name in ("a", "b", "c"):
        strategy.broker_failed(name, 10, 0.0)
    taken = {strategy.choose(topic, None, 0.0) for _ in range(12)}
    assert len(taken) == (12 if profile is PROFILE_5_X else 4), "4.9: those of the better half"
