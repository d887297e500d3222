"""Which waiting pulls an arrival, the clock or a closed connection ends."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.broker.holding import hold_table
from pocketmq.broker.holding.hold_table import HELD_REQUEST_BYTES, HoldTable
from pocketmq.broker.pulling.pull_checks import HeldPull
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import OverBudgetError
from pocketmq.protocol.messages.subscription import SubscriptionData, tags_code
from support.broker_rig import FakePeer, pull_header
from support.growth import least_s
from support.worked_examples import rows

A, B = tags_code("TagA"), tags_code("TagB")


def pull(
    offset: int = 10,
    expression: str = "*",
    *,
    peer: FakePeer | None = None,
    deadline: float = 15.0,
    **fields: Any,
) -> HeldPull:
    return HeldPull(
        peer or FakePeer(),
        Command(11),
        pull_header(offset=offset, **fields),
        SubscriptionData.parse("orders", expression, 1),
        deadline,
    )


def holding(*pulls: HeldPull) -> HoldTable[HeldPull]:
    table: HoldTable[HeldPull] = HoldTable()
    for each in pulls:
        table.hold(each)
    return table


def test_a_message_ends_the_waits_on_its_queue_and_no_other() -> None:  # B-72
    here, there = pull(), pull(queue_id=1)
    table = holding(here, there)
    assert table.arrived("orders", 0, 11, [A]) == [here]
    assert table.arrived("orders", 0, 12, [A]) == []
    assert table.arrived("others", 1, 11, [A]) == []
    assert len(table) == 1


def test_a_message_with_another_tag_leaves_the_pull_waiting() -> None:  # B-72, B-73
    wants_a = pull(expression="TagA")
    table = holding(wants_a)
    assert table.arrived("orders", 0, 11, [B]) == []
    assert table.arrived("orders", 0, 13, [B, A]) == [wants_a]


def test_a_message_before_the_pulls_offset_does_not_count() -> None:  # B-72
    ahead = pull(offset=12, expression="TagA")
    table = holding(ahead)
    assert table.arrived("orders", 0, 12, [A, A]) == []
    assert table.arrived("orders", 0, 13, [A, B]) == []  # A is at 11, B at 12
    assert table.arrived("orders", 0, 14, [A]) == [ahead]


def test_a_look_goes_on_where_the_one_before_ended() -> None:  # B-71
    pulls = [pull(queue_id=number) for number in range(5)]
    table = holding(*pulls)
    late = pull(queue_id=9)
    found, looks = [], 0
    while not looks or table.is_looking:
        found.append(table.due(15.0, lambda *_: 10, most=4))
        looks += 1
        if looks == 1:
            assert table.arrived("orders", 4, 11, [A]) == [pulls[4]]
            table.hold(late)
    assert found == [pulls[:2], pulls[2:4], []]
    assert table.due(15.0, lambda *_: 10) == [late]


def test_a_deleted_topic_costs_the_same_while_many_pulls_wait_on_others() -> None:
    table: HoldTable[HeldPull] = HoldTable(lambda: Budget(held_pulls_per_connection=50_000))
    peer = FakePeer()

    def hold_and_delete() -> None:
        table.hold(pull(topic="gone", peer=peer))
        assert len(table.release_topic("gone")) == 1

    before_s = least_s(hold_and_delete, runs=5, steps=20)
    for number in range(20_000):
        table.hold(pull(topic=f"topic-{number}", peer=peer))
    assert least_s(hold_and_delete, runs=5, steps=20) < 10 * before_s


def test_a_pull_is_due_when_its_time_is_up() -> None:  # B-71, B-72
    table = holding(pull(deadline=15.0))
    assert table.due(14.9, lambda *_: 10) == []
    assert len(table.due(15.0, lambda *_: 10)) == 1
    assert len(table) == 0


def test_a_pull_is_due_when_its_queue_grew_whatever_the_tags() -> None:  # B-71, B-73
    filtering = pull(expression="TagA")
    table = holding(filtering)
    assert table.due(5.0, lambda *_: 11) == [filtering]


def test_a_closed_connection_takes_its_waits_along() -> None:  # B-70
    peer = FakePeer()
    stays = pull()
    table = holding(pull(peer=peer), pull(peer=peer, queue_id=1), stays)
    table.forget_peer(peer)
    table.forget_peer(peer)
    assert len(table) == 1
    assert table.arrived("orders", 0, 11, [A]) == [stays]


def test_a_deleted_topic_releases_all_its_waits() -> None:
    here, other = pull(queue_id=3), pull(topic="others")
    table = holding(here, other)
    assert table.release_topic("orders") == [here]
    assert table.release_topic("others") == [other]
    assert len(table) == 0


def test_the_message_at_the_pulls_own_offset_counts() -> None:  # B-72
    behind = pull(offset=10, expression="TagA")
    table = holding(behind)
    assert table.arrived("orders", 0, 12, [A, B, B]) == []  # A is at 9
    assert table.arrived("orders", 0, 12, [B, A, B]) == [behind]


def test_what_is_held_counts_as_memory_of_its_peer_until_it_ends() -> None:
    table: HoldTable[HeldPull] = HoldTable()
    peer = FakePeer()
    assert bool(table) is False
    first, second = pull(peer=peer), pull(peer=peer)
    table.hold(first)
    table.hold(second, 1000)
    assert bool(table) is True
    assert peer.kept_bytes == 2 * HELD_REQUEST_BYTES + 1000
    assert table.arrived("orders", 0, 11, [0]) == [first, second]
    assert peer.kept_bytes == 0
    assert bool(table) is False
    table.hold(pull(peer=peer))
    table.forget_peer(peer)
    assert (peer.kept_bytes, len(table)) == (0, 0)
    assert not table._of_peer, "a peer that has gone takes no memory"


def test_a_connection_may_have_so_many_waiting() -> None:
    table: HoldTable[HeldPull] = HoldTable(lambda: Budget(held_pulls_per_connection=2))
    peer = FakePeer()
    for _ in range(2):
        table.hold(pull(peer=peer))
    with pytest.raises(OverBudgetError, match="3 is over the limit of 2"):
        table.hold(pull(peer=peer))
    assert (len(table), peer.kept_bytes) == (2, 2 * HELD_REQUEST_BYTES)
    table.hold(pull())


def test_a_slave_that_rests_again_hands_over_every_wait_and_keeps_none() -> None:
    here, also, there = pull(), pull(offset=12), pull(queue_id=1)
    table = holding(here, also, there)
    assert table.release_all() == [here, also, there]
    assert not table
    assert table.release_all() == []
    assert table.arrived("orders", 0, 13, [A]) == []


def test_the_three_pulls_that_the_module_opens_with() -> None:
    pulls = {"A": pull(5), "B": pull(5, "paid"), "C": pull(6)}
    table: HoldTable[HeldPull] = HoldTable()
    end, waiting, shown = 5, dict(pulls), []

    def note(at: float, what: str, ended: list[HeldPull] | None = None) -> None:
        for name in [name for name, each in waiting.items() if each in (ended or ())]:
            del waiting[name]
        names = " ".join(name for name, each in waiting.items() if each in held) or "nobody"
        shown.append([f"{at:.1f} s", what, names])

    held: list[HeldPull] = []
    for name, wants in (("A", "from 5, every tag"), ("B", "from 5, tag paid"), ("C", "from 6")):
        table.hold(pulls[name])
        held.append(pulls[name])
        note(0.0, f"{name} pulls {wants}")
    end += 1
    woken = table.arrived("orders", 0, end, [tags_code("new")])
    note(1.0, "message 5 arrives, tag new: `arrived` returns A", woken)
    woken = table.due(5.0, lambda *_: end)
    note(5.0, "the look: the queue ends at 6, `due` returns B", woken)
    note(15.0, "its time is up: `due` returns C", table.due(15.0, lambda *_: end))
    assert rows(hold_table, "at ") == shown
    assert not table
