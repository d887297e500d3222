"""Which waiting pop a message wakes, and which may wait at all (K-130 to K-134)."""

from __future__ import annotations

import gc
from collections.abc import Callable
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.pop.waiting import WaitingPop, WaitingPops
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from support.broker_rig import FakePeer
from support.growth import least_s

KEY = ("T", "G", -1)
ONE, OTHER = ("T", "G", 3), ("T", "H", -1)


def waiting(
    key: tuple[str, str, int] = KEY,
    deadline_ms: int = 10_000,
    accept: Callable[[int], bool] | None = None,
    peer: FakePeer | None = None,
) -> WaitingPop[None]:
    return WaitingPop(peer or FakePeer(), Command(1, None), None, key, deadline_ms, accept)  # type: ignore[arg-type]


def table(*pops: WaitingPop[None], most: int = 100, per_key: int = 10) -> WaitingPops[None]:
    pops_table: WaitingPops[None] = WaitingPops(most, per_key)
    for pop in pops:
        pops_table.hold(pop)
    return pops_table


def test_a_message_wakes_one_of_each_group_the_most_urgent_first() -> None:
    late, soon, other = waiting(deadline_ms=9000), waiting(deadline_ms=5000), waiting(OTHER)
    pops = table(late, soon, other)
    assert pops.arrived("T", 0, [0]) == [soon, other]
    assert pops.arrived("T", 0, [0]) == [late]
    assert pops.arrived("T", 0, [0]) == []
    assert len(pops) == 0


def test_any_queue_goes_before_one_queue_and_another_queue_does_not_fit() -> None:
    any_queue, one_queue = waiting(), waiting(ONE)
    pops = table(one_queue, any_queue)
    assert pops.arrived("T", 3, [0]) == [any_queue]
    assert pops.arrived("T", 2, [0]) == []
    assert pops.arrived("T", 3, [0]) == [one_queue]


def test_a_retry_message_of_either_naming_wakes_its_group() -> None:
    for topic in ("%RETRY%G_T", "%RETRY%G+T"):
        one_queue, other = waiting(ONE), waiting(OTHER)
        pops = table(one_queue, other)
        assert pops.arrived(topic, 0, [7]) == [one_queue]
        assert pops.arrived(topic, 0, [7]) == []


def test_who_does_not_want_the_tag_is_not_woken() -> None:
    picky = waiting(accept=lambda code: code == 5)
    pops = table(picky)
    assert pops.arrived("T", 0, [1, 2]) == []
    assert pops.arrived("T", 0, [1, 5]) == [picky]


def test_a_closed_connection_is_not_woken_and_forgotten() -> None:
    peer = FakePeer()
    peer.is_open = False
    pops = table(waiting(peer=peer), waiting(ONE, peer=peer))
    assert pops.arrived("T", 3, [0]) == []
    pops.forget_peer(peer)  # type: ignore[arg-type]
    assert (len(pops), pops.count(KEY), pops.next_deadline_ms()) == (0, 0, None)


def test_too_many_or_too_late_does_not_wait() -> None:
    pops = table(waiting(), waiting(), per_key=1, most=3)
    assert pops.refusal(KEY, 9000, 0) is ResponseCode.POLLING_FULL
    assert pops.refusal(ONE, 9000, 0) is None
    assert pops.refusal(ONE, 9000, 8950) is ResponseCode.POLLING_TIMEOUT
    pops.hold(waiting(ONE))
    assert pops.refusal(OTHER, 9000, 0) is ResponseCode.POLLING_FULL


def test_a_deleted_topic_lets_go_of_all() -> None:
    pops = table(waiting(), waiting(ONE), waiting(("U", "G", -1)))
    assert len(pops.release_topic("T")) == 2
    assert len(pops) == 1


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(0, 5000)), max_size=20), st.data())
def test_each_waiting_pop_is_returned_exactly_once(
    held: list[tuple[int, int]], data: st.DataObject
) -> None:
    pops = table(*(waiting(("T", "G", queue), at) for queue, at in held), per_key=99)
    returned: list[WaitingPop[None]] = []
    for _ in range(data.draw(st.integers(0, 25))):
        returned += pops.arrived("T", data.draw(st.integers(0, 2)), [0])
    now_ms = data.draw(st.integers(0, 5000))
    late = pops.due(now_ms)
    assert all(pop.deadline_ms - 50 <= now_ms for pop in late)
    first = pops.next_deadline_ms()
    assert first is None or first > now_ms
    returned += late + pops.due(99_999)
    assert len(returned) == len(set(map(id, returned))) == len(held)
    assert len(pops) == 0


def test_groups_that_wait_no_more_leave_nothing_behind() -> None:
    pops = table(*(waiting(("T", f"G{n}", queue)) for n in range(3) for queue in (-1, 0, 1)))
    pops.hold(waiting(("T", "G0", 0)))
    assert vars(pops) != vars(table())
    pops.due(99_999)
    assert vars(pops) == vars(table())


def test_a_retry_message_wakes_whatever_queue_its_group_waits_for_and_no_other_group() -> None:
    first_queue, stranger = waiting(("T", "G", 0)), waiting(("T", "H", 3))
    elsewhere = waiting(("U", "G", 3))
    pops = table(stranger, elsewhere, first_queue)
    assert pops.arrived("%RETRY%G_T", 0, [7]) == [first_queue]
    assert pops.arrived("%RETRY%G_T", 0, [7]) == []
    assert len(pops) == 2


def test_a_pop_is_answered_50_ms_before_its_deadline() -> None:  # K-131
    pops = table(waiting(deadline_ms=10_000))
    assert (pops.next_deadline_ms(), pops.due(9_949)) == (9_950, [])
    assert len(pops.due(9_950)) == 1


def test_as_many_wait_as_in_rocketmq() -> None:  # K-130
    pops: WaitingPops[None] = WaitingPops()
    for _ in range(1024):
        pops.hold(waiting())
    assert pops.refusal(KEY, 9000, 0) is None
    pops.hold(waiting())
    assert pops.refusal(KEY, 9000, 0) is ResponseCode.POLLING_FULL
    pops.total = 99_999
    assert pops.refusal(ONE, 9000, 0) is None
    pops.total = 100_000
    assert pops.refusal(ONE, 9000, 0) is ResponseCode.POLLING_FULL


def test_a_message_of_the_first_queue_wakes_who_waits_for_that() -> None:  # K-132
    first_queue = waiting(("T", "G", 0))
    assert table(first_queue).arrived("T", 0, [0]) == [first_queue]


def step_of_hold(pops: WaitingPops[None], pop: WaitingPop[None]) -> None:
    pops.next_deadline_ms()
    pops.hold(pop)
    assert pops.arrived(pop.key[0], 0, [0]) == [pop]


def step_of_retry(pops: WaitingPops[None], pop: WaitingPop[None]) -> None:
    pops.hold(pop)
    assert pops.arrived(f"%RETRY%G_{pop.key[0]}", 0, [0]) == [pop]


def step_of_deadline(pops: WaitingPops[None], pop: WaitingPop[None]) -> None:
    pop.deadline_ms = 100
    pops.hold(pop)
    assert pops.due(50) == [pop]


def step_of_leaving(pops: WaitingPops[None], pop: WaitingPop[None]) -> None:
    pops.hold(pop)
    pops.forget_peer(pop.peer)


@pytest.mark.parametrize("step", [step_of_hold, step_of_retry, step_of_deadline, step_of_leaving])
def test_a_pop_costs_the_same_while_many_wait(
    step: Callable[[WaitingPops[None], WaitingPop[None]], None],
) -> None:
    pops, numbers, peer = table(most=99_999), count(), FakePeer()

    def next_one() -> None:
        step(pops, waiting((f"T{next(numbers)}", "G", -1), peer=peer))

    before_s = least_s(next_one, runs=5, steps=100)
    for number in range(20_000):
        pops.hold(waiting((f"U{number}", "G", -1), 20_000 + number))
    assert least_s(next_one, runs=5, steps=100) < 10 * before_s


def test_a_message_costs_the_same_while_many_of_one_group_wait() -> None:
    pops, peer = table(most=99_999, per_key=99_999), FakePeer()

    def next_one() -> None:
        pop = waiting(deadline_ms=10, peer=peer)
        pops.hold(pop)
        assert pops.arrived("T", 0, [0]) == [pop]

    before_s = least_s(next_one, runs=5, steps=100)
    for number in range(20_000):
        pops.hold(waiting(deadline_ms=20_000 + number))
    assert least_s(next_one, runs=5, steps=100) < 10 * before_s


def test_pops_that_wait_no_more_hold_no_memory() -> None:
    pops = table(waiting(OTHER))
    for _ in range(1_000):
        pops.hold(waiting(("gone", "G", -1)))
        pops.wake("gone", "G", -1)
    pops_left = [each for each in gc.get_objects() if isinstance(each, WaitingPop)]
    assert len([pop for pop in pops_left if pop.key[0] == "gone"]) < 200
