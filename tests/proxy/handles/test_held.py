"""When handles are renewed, for how long, and when no more (G-92, G-96, G-97)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pocketmq.protocol.errors import BadRequestError
from pocketmq.proxy.handles.held import (
    LONGEST_MS,
    MAX_OF_A_CLIENT,
    Held,
    HeldHandles,
    Kind,
    Renewal,
)
from pocketmq.proxy.handles.receipts import Receipt

POPPED = 1_735_689_600_000


def receipt(offset: int = 0, *, popped: int = POPPED, invisible: int = 60_000) -> Receipt:
    return Receipt.parse(f"0 {popped} {invisible} 3 0 a 2 {offset} {offset * 100}")


def held(offset: int = 0, *, client: str = "c", group: str = "G", popped: int = POPPED) -> Held:
    return Held(client, group, "T", f"m{offset}", receipt(offset, popped=popped), 0)


def only(due: list[Renewal]) -> Renewal:
    (one,) = due
    return one


def test_a_handle_is_renewed_ten_seconds_ahead_and_each_time_for_longer() -> None:
    table = HeldHandles()
    table.add(held())
    now, asked = POPPED, []
    for _ in range(8):
        due_at = table._groups["c", "G"]["m0"]["a", 2, 0].receipt.due_ms - 10_000
        assert table.due(due_at - 1) == []
        renewal = only(table.due(due_at))
        assert table.due(due_at) == []  # it is under way
        now = due_at
        if renewal.kind is Kind.STOP:
            table.ended(renewal.held)
            break
        asked.append(renewal.invisible_ms // 60_000)
        table.renewed(renewal.held, renewal.held.receipt.renewed(now, renewal.invisible_ms, 3))
    assert asked == [1, 3, 5, 10, 30, 60, 60, 60][: len(asked)]
    assert len(asked) == 8 or now - POPPED >= LONGEST_MS


def test_after_three_hours_it_is_stopped() -> None:
    table = HeldHandles()
    table.add(held())
    first = only(table.due(POPPED + 50_000))
    table.renewed(first.held, first.held.receipt.renewed(POPPED + 50_000, LONGEST_MS, 3))
    stop = only(table.due(POPPED + LONGEST_MS + 50_000))
    assert stop.kind is Kind.STOP
    table.ended(stop.held)
    assert len(table) == 0


def test_the_third_failure_in_a_row_is_the_last() -> None:
    table = HeldHandles()
    table.add(held())
    for moment in range(3):
        renewal = only(table.due(POPPED + 51_000 + moment))
        assert renewal.invisible_ms == 60_000
        table.failed(renewal.held)
    assert table.due(POPPED + 52_000) == []
    assert len(table) == 0


def test_a_success_forgets_the_failures() -> None:
    table = HeldHandles()
    table.add(held())
    for _ in range(2):
        table.failed(only(table.due(POPPED + 51_000)).held)
    renewal = only(table.due(POPPED + 51_000))
    table.renewed(renewal.held, renewal.held.receipt.renewed(POPPED + 51_000, 60_000, 3))
    assert renewal.held.failures == 0
    assert len(table) == 1


def test_a_client_that_acks_with_its_first_handle_has_the_newest_one_looked_up() -> None:
    table = HeldHandles()
    table.add(held())
    first = receipt().text
    renewal = only(table.due(POPPED + 50_000))
    newest = renewal.held.receipt.renewed(POPPED + 50_000, 60_000, 5)
    table.renewed(renewal.held, newest)
    taken = table.take("c", "G", "m0", first)
    assert taken is not None
    assert taken.receipt == newest
    assert table.take("c", "G", "m0", first) is None
    assert table.due(POPPED + 10**9) == []


def test_a_handle_that_was_taken_while_its_renewal_was_under_way_learns_the_answer() -> None:
    table = HeldHandles()
    table.add(held())
    renewal = only(table.due(POPPED + 50_000))
    taken = table.take("c", "G", "m0", receipt().text)
    assert taken is renewal.held
    assert taken.under_way
    newest = taken.receipt.renewed(POPPED + 50_000, 60_000, 5)
    table.renewed(taken, newest)
    assert taken.receipt == newest
    assert not renewal.held.under_way
    assert len(table) == 0
    assert table.due(POPPED + 10**9) == []


def test_a_message_that_was_delivered_again_at_another_place_is_a_second_one() -> None:
    table = HeldHandles()
    table.add(Held("c", "G", "T", "m", receipt(1), 0))
    table.add(Held("c", "G", "T", "m", receipt(2), 1))
    assert len(table) == 2
    taken = table.take("c", "G", "m", receipt(2).text)
    assert taken is not None
    assert taken.reconsume_times == 1
    assert len(table) == 1


def test_a_message_that_was_delivered_again_at_its_place_replaces_the_first() -> None:
    table = HeldHandles()
    table.add(held())
    table.add(held(popped=POPPED + 60_000))
    assert len(table) == 1
    assert table.due(POPPED + 60_000) == []
    assert only(table.due(POPPED + 110_000)).held.since_ms == POPPED + 60_000


def test_the_handle_of_a_message_that_nobody_holds_is_not_looked_at() -> None:
    table = HeldHandles()
    assert table.take("c", "G", "m0", "garbage") is None
    table.add(held())
    assert table.take("c", "other", "m0", "garbage") is None
    with pytest.raises(BadRequestError):
        table.take("c", "G", "m0", "garbage")


def test_what_a_client_held_that_has_gone_is_named_once() -> None:
    table = HeldHandles()
    for offset in range(3):
        table.add(held(offset))
    table.add(held(7, client="d"))
    assert {one.message_id for one in table.leave("c", "G")} == {"m0", "m1", "m2"}
    assert table.leave("c", "G") == []
    assert table.clients() == [("d", "G")]
    assert len(table) == 1


def test_one_client_cannot_have_more_renewed_than_any_sdk_holds() -> None:
    table = HeldHandles()
    first = receipt()
    for number in range(MAX_OF_A_CLIENT):
        assert table.add(Held("c", "G", "T", f"m{number}", first, 0))
    assert not table.add(Held("c", "G", "T", "one more", first, 0))
    assert table.add(Held("c", "G", "T", "m3", first, 0))  # in place of the one before
    assert table.add(held(client="d"))
    assert len(table) == MAX_OF_A_CLIENT + 1
    assert table.take("c", "G", "one more", first.text) is None


def test_all_clients_together_cannot_have_more_than_a_million(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pocketmq.proxy.handles.held.MAX_IN_ALL", 3)
    table = HeldHandles()
    assert [table.add(held(client=client)) for client in "abcd"] == [True, True, True, False]
    assert ("d", "G") not in table.clients()
    table.leave("a", "G")
    assert table.add(held(client="d"))


def test_what_was_taken_takes_no_memory_for_long() -> None:
    table = HeldHandles()
    for offset in range(10_000):
        table.add(held(offset))
        table.take("c", "G", f"m{offset}", receipt(offset).text)
    assert len(table) == 0
    assert len(table._heap) <= 1_001


class Renewing(RuleBasedStateMachine):
    """Whatever happens in whatever order, each message is held once, and renewed in time."""

    def __init__(self) -> None:
        super().__init__()
        self.table = HeldHandles()
        self.now = POPPED
        self.model: dict[tuple[str, int], Receipt] = {}
        """(client, offset) -> newest handle."""
        self.under_way: list[Held] = []

    @rule(client=st.sampled_from("cd"), offset=st.integers(0, 4))
    def hand_out(self, client: str, offset: int) -> None:
        self.table.add(held(offset, client=client, popped=self.now))
        self.model[client, offset] = receipt(offset, popped=self.now)

    @rule(client=st.sampled_from("cd"), offset=st.integers(0, 4))
    def ack(self, client: str, offset: int) -> None:
        taken = self.table.take(client, "G", f"m{offset}", receipt(offset).text)
        newest = self.model.pop((client, offset), None)
        assert (taken and taken.receipt) == newest

    @rule(client=st.sampled_from("cd"))
    def leave(self, client: str) -> None:
        gone = {one.receipt.queue_offset for one in self.table.leave(client, "G")}
        assert gone == {offset for of, offset in self.model if of == client}
        self.model = {key: value for key, value in self.model.items() if key[0] != client}

    @rule(ms=st.integers(0, 70_000))
    def pass_time(self, ms: int) -> None:
        self.now += ms
        for renewal in self.table.due(self.now):
            assert renewal.held.receipt.due_ms - self.now <= 10_000
            self.under_way.append(renewal.held)

    @rule(good=st.booleans())
    def answer(self, good: bool) -> None:
        for one in self.under_way:
            key = one.client_id, one.receipt.queue_offset
            current = not one.done
            if good:
                newest = one.receipt.renewed(self.now, 60_000, 1)
                self.table.renewed(one, newest)
                if current:
                    self.model[key] = newest
            else:
                self.table.ended(one)
                if current:
                    del self.model[key]
        self.under_way.clear()

    @invariant()
    def it_holds_what_the_model_says(self) -> None:
        assert len(self.table) == len(self.model)
        assert set(self.table.clients()) == {(client, "G") for client, _ in self.model}


TestRenewing = Renewing.TestCase
