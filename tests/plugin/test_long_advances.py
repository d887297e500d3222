"""What is sent while the clock is moved far: as much as in the same time on a real clock."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.testing import Cluster, start_cluster
from support.eventually import PATIENCE_S

ADVANCE_S = 3600
QUEUES = 5
"""Four of the topic and that of retries."""

EXPECTED = {
    RequestCode.REGISTER_BROKER: ADVANCE_S // 30,  # B-3
    RequestCode.HEART_BEAT: ADVANCE_S // 30,  # P-5
    RequestCode.PULL_MESSAGE: QUEUES * ADVANCE_S // 15,  # B-70: held for 15 s
    RequestCode.UPDATE_CONSUMER_OFFSET: QUEUES * ADVANCE_S // 5,  # P-5
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: 2 * ADVANCE_S // 20,  # C-20, for each topic
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """Requests that any role has processed, by code."""
    found: Counter[int] = Counter()
    process = Dispatcher.process

    def counted(self: Dispatcher, peer: Any, command: Command) -> Any:
        found[command.code] += 1
        return process(self, peer, command)

    monkeypatch.setattr(Dispatcher, "process", counted)
    return found


def test_each_request_of_an_idle_hour_is_sent(asked: Counter[int], pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    cluster.create_topic("orders")
    with cluster.consumer("billing", "orders"):
        cluster.group("billing").assigned(limit_s=PATIENCE_S)
        cluster.advance(minutes=1)
        before = asked.copy()
        cluster.advance(ADVANCE_S)
        sent = {code: asked[code] - before[code] for code in EXPECTED}
    # A topic that was created is registered in between (B-6).
    sent[RequestCode.REGISTER_BROKER] = min(
        sent[RequestCode.REGISTER_BROKER], EXPECTED[RequestCode.REGISTER_BROKER]
    )
    assert sent == EXPECTED


def test_an_advance_does_what_is_due_at_its_very_end_too(pocketmq_clock: Cluster) -> None:
    cluster, control = pocketmq_clock.sync, pocketmq_clock.control
    cluster.create_topic("orders")
    with cluster.consumer("billing", "orders"):
        cluster.group("billing").assigned(limit_s=PATIENCE_S)
        for seconds in (10, 5, 15, 30):  # moments at which several members have a timer
            cluster.advance(seconds)
            due = pocketmq_clock.thread.result(control.deadlines())
            assert [each for each in due if each.at_ms <= cluster.time_ms] == []


UNTIL_LIMIT = 1.3
"""Times the work of `advance` that `advance_until` may cost; 1.11 and 1.15 were measured."""


@contextmanager
def counted_calls() -> Iterator[Callable[[], int]]:
    """Counts calls of functions, in this thread and in those that start meanwhile.

    Unlike processor time, they do not depend on who else uses the machine.
    """
    ticks = itertools.count(1)

    def note(_frame: FrameType, event: str, _what: object) -> None:
        if event in ("call", "c_call"):
            next(ticks)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield lambda: next(ticks)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def test_waiting_for_a_condition_costs_hardly_more_than_moving_the_clock() -> None:
    asked: list[int] = []
    until_ms = 0
    with counted_calls() as calls, start_cluster(clock="manual") as whole:
        cluster = whole.sync
        cluster.create_topic("orders")

        def is_over() -> bool:
            asked.append(whole.time_ms)
            return whole.time_ms >= until_ms

        def cost(move: Callable[[], object]) -> int:
            """The fewest calls of three: what a busy machine adds is no cost of it."""
            nonlocal until_ms
            found: list[int] = []
            for _ in range(3):
                asked.clear()
                until_ms = whole.time_ms + 120_000
                before = calls()
                move()
                assert whole.time_ms == until_ms
                found.append(calls() - before)
            return min(found)

        with cluster.consumer("billing", "orders"):
            cluster.group("billing").assigned(limit_s=PATIENCE_S)
            cluster.advance(60)
            plain = cost(lambda: cluster.advance(120))
            in_thread = cost(lambda: cluster.advance_until(is_over))
            assert asked == sorted(set(asked)), "once at each moment"
            assert len(asked) > 120 / 5  # B-70, P-5: at least as often as offsets are sent
            in_task = cost(lambda: asyncio.run(whole.advance_until(is_over)))
    assert in_thread < UNTIL_LIMIT * plain
    assert in_task < UNTIL_LIMIT * plain


def test_a_condition_may_do_what_its_test_does(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("orders")
    began_ms = cluster.time_ms
    seen: list[int] = []

    def starts_a_consumer_and_moves_time() -> bool:
        if not seen:
            seen.append(cluster.time_ms)
            cluster.advance(45)
            with cluster.consumer("billing", topic):
                cluster.group("billing").assigned(limit_s=PATIENCE_S)
                cluster.kill("broker-a")
                cluster.restart("broker-a")
        return cluster.time_ms - began_ms > 100_000

    took_s = cluster.advance_until(starts_a_consumer_and_moves_time)
    assert 100 < took_s < 131


ORDERS: dict[str, bool] = {}


def test_an_error_of_a_condition_is_the_tests_own(pocketmq_clock: Cluster) -> None:
    def fails() -> bool:
        return ORDERS["none"]

    with pytest.raises(KeyError, match="none") as sync_error:
        pocketmq_clock.sync.advance_until(fails)
    with pytest.raises(KeyError, match="none") as async_error:
        asyncio.run(pocketmq_clock.advance_until(fails))
    for error in (sync_error, async_error):
        assert error.traceback[-1].name == "fails"
    pocketmq_clock.sync.advance(1)


def test_time_goes_on_when_all_roles_had_ended(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    cluster.advance(hours=1)
    before_ms = cluster.time_ms
    for role in reversed(pocketmq_clock.roles):
        cluster.kill(role)
    for role in pocketmq_clock.roles:
        cluster.restart(role)
    roles = pocketmq_clock.control.roles
    assert (cluster.time_ms, roles.time_ms()) == (before_ms, before_ms)


def test_time_goes_on_when_only_a_frozen_role_is_left(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    cluster.freeze("broker-a")
    cluster.advance(hours=1)
    before_ms = cluster.time_ms
    cluster.kill("nameserver-1")
    assert pocketmq_clock.control.roles.time_ms() == before_ms
    cluster.restart("nameserver-1")
    assert pocketmq_clock.control.roles.time_ms() == before_ms
    cluster.thaw("broker-a")
