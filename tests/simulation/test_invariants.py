"""The ledgers see what they are there to see, and let pass what RocketMQ allows."""

from __future__ import annotations

import pytest

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.simulation.invariants import OwnershipLedger, ProgressLedger
from pocketmq.simulation.invariants.queue_starts import QueueStarts
from pocketmq.simulation.invariants.services.pops import Delivery, PopLedger
from pocketmq.simulation.scenario import Mode

Q0, Q1 = MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)
RETRY = MessageQueue("%RETRY%G", "a", 0)


@pytest.fixture
def ledger() -> ProgressLedger:
    return ProgressLedger(Mode.CONCURRENT)


@pytest.fixture
def orderly() -> ProgressLedger:
    return ProgressLedger(Mode.ORDERLY)


def start(
    ledger: ProgressLedger,
    offset: int,
    *,
    client: str = "c1",
    key: str = "",
    times: int = 0,
    epoch: int = 1,
    now: float = 100.0,
    queue: MessageQueue = Q0,
) -> None:
    ledger.started(client, queue, offset, key or f"m{offset}", times, epoch, now)


def consume(ledger: ProgressLedger, *offsets: int, ok: bool = True, epoch: int = 1) -> None:
    for offset in offsets:
        start(ledger, offset, epoch=epoch)
        ledger.ended("c1", Q0, offset, f"m{offset}", 0, ok=ok)


def commit(ledger: ProgressLedger, offset: int, client: str, epoch: int, now: float) -> None:
    ledger.committed("G", Q0, offset, client, epoch, now)


# -- committed offsets ---------------------------------------------------------------------------


def test_a_commit_behind_the_first_unconsumed_message_is_fine_one_beyond_is_not(
    ledger: ProgressLedger,
) -> None:
    consume(ledger, 0, 2)
    commit(ledger, 1, "c1", 1, 2.0)
    assert not ledger.violations
    commit(ledger, 2, "c1", 1, 2.0)
    [violation] = ledger.violations
    assert "1 is not consumed" in violation


def test_a_reset_or_retention_may_carry_an_offset_over_unconsumed_messages(
    ledger: ProgressLedger,
) -> None:
    ledger.reset(Q0, 5)
    commit(ledger, 5, "c1", 1, 2.0)
    ledger.expired(Q0, 8)
    commit(ledger, 8, "c1", 1, 2.0)
    assert not ledger.violations
    commit(ledger, 9, "c1", 1, 2.0)
    assert "8 is not consumed" in ledger.violations.pop()


def test_an_offset_may_fall_by_a_former_owner_but_not_within_one_ownership(
    ledger: ProgressLedger,
) -> None:
    consume(ledger, 0, 1, 2)
    ledger.taken(1, 0.0)
    ledger.taken(2, 1.5)
    commit(ledger, 3, "c2", 2, 2.0)
    commit(ledger, 1, "c1", 1, 2.1)  # a late commit of the former owner
    assert (ledger.seen["offsets fallen"], ledger.violations) == (1, [])
    commit(ledger, 0, "c1", 1, 2.2)
    [violation] = ledger.violations
    assert "in one ownership" in violation


def test_a_new_owner_may_not_go_back_behind_what_was_committed_when_it_came(
    ledger: ProgressLedger,
) -> None:
    consume(ledger, 0, 1, 2)
    ledger.taken(1, 0.0)
    ledger.taken(2, 60.0)
    commit(ledger, 3, "c1", 1, 2.0)
    commit(ledger, 1, "c2", 2, 61.0)
    [violation] = ledger.violations
    assert "took the queue when 3 was committed" in violation


def test_a_reset_moves_an_offset_back_within_one_ownership(ledger: ProgressLedger) -> None:
    consume(ledger, 0, 1, 2)
    ledger.taken(1, 0.0)
    commit(ledger, 3, "c1", 1, 2.0)
    ledger.reset(Q0, 1)
    commit(ledger, 1, "c1", 1, 3.0)
    assert not ledger.violations
    commit(ledger, 0, "c1", 1, 4.0)
    assert ledger.violations


def test_offsets_fall_with_a_broker_that_crashed_and_not_with_one_that_stopped(
    ledger: ProgressLedger,
) -> None:
    consume(ledger, 0, 1, 2)
    for crashed in (True, False):
        commit(ledger, 3, "c1", 1, 2.0)
        ledger.broker_restarted("a", {("G", Q0): 1}, {Q0: 3}, 3.0, crashed=crashed)
        assert (not ledger.violations) is crashed
    assert "after a restart in order it is 1" in ledger.violations[0]


def test_a_delivered_message_does_not_vanish_with_a_broker(ledger: ProgressLedger) -> None:
    consume(ledger, 0, 1, 2)
    ledger.broker_restarted("a", {}, {Q0: 3}, 3.0, crashed=True)
    assert not ledger.violations
    ledger.broker_restarted("a", {}, {Q0: 2}, 3.0, crashed=True)
    assert "delivered up to 3, and after a restart it ends at 2" in ledger.violations[0]


# -- messages ------------------------------------------------------------------------------------


def test_a_message_that_nobody_consumed_is_missing_unless_it_is_a_dead_letter() -> None:
    ledger = ProgressLedger(
        Mode.CONCURRENT, {"m0": (Q0, 0), "m1": (Q0, 1), "m2!": (Q0, 2), "m3": (Q0, 3)}
    )
    consume(ledger, 0)
    assert ledger.missing(["m2!"]) == ["m1", "m3"]
    ledger.excuse(["m3"])
    assert ledger.missing(["m2!"]) == ["m1"]
    ledger.reset(Q0, 2)
    assert ledger.missing(["m2!"]) == []


def test_a_failure_counts_as_consumed_where_a_broadcasting_member_failed() -> None:
    for mode, missing in ((Mode.BROADCAST, []), (Mode.CONCURRENT, ["m0"])):
        ledger = ProgressLedger(mode, {"m0": (Q0, 0)})
        consume(ledger, 0, ok=False)
        assert ledger.missing([]) == missing


def test_a_seventeenth_retry_is_one_too_many(ledger: ProgressLedger) -> None:
    start(ledger, 0, key="m0!", times=16)
    assert not ledger.violations
    start(ledger, 1, key="m0!", times=17)
    assert ledger.violations


def test_one_failed_delivery_makes_one_copy(ledger: ProgressLedger) -> None:
    consume(ledger, 0, ok=False)
    start(ledger, 5, key="m0", times=1, queue=RETRY)
    start(ledger, 5, key="m0", times=1, queue=RETRY)  # the same copy again
    start(ledger, 0, key="m0", times=1)  # the message itself, which could not be sent back
    ledger.check_copies(exactly=True)
    assert not ledger.violations
    start(ledger, 6, key="m0", times=1, queue=RETRY)
    ledger.check_copies(exactly=False)  # an answer may have been lost
    assert not ledger.violations
    ledger.check_copies(exactly=True)
    assert "2 copies at 1 retries after 1 failed" in ledger.violations[0]


def test_a_dead_letter_is_there_once_for_each_seventeenth_failure(ledger: ProgressLedger) -> None:
    start(ledger, 0, key="m0!", times=16)
    ledger.ended("c1", Q0, 0, "m0!", 16, ok=False)
    ledger.check_dead_letters(["m0!"], exactly=True)
    assert not ledger.violations
    assert ledger.seen["dead letters that must be one"] == 1
    ledger.check_dead_letters(["m0!", "m0!"], exactly=True)
    assert "dead letter topic 2 times" in ledger.violations.pop()
    ledger.check_dead_letters(["m7"], exactly=False)  # it never failed so often
    assert "1 times after 0 failures" in ledger.violations.pop()


def test_a_copy_that_a_client_sent_itself_dies_one_retry_sooner_in_4_9(
    ledger: ProgressLedger,
) -> None:
    start(ledger, 0, key="m0!", times=15)
    ledger.ended("c1", Q0, 0, "m0!", 15, ok=False)
    ledger.check_dead_letters(["m0!"], exactly=False, when_equal=True)
    assert not ledger.violations
    ledger.check_dead_letters(["m0!"], exactly=True, when_equal=True)  # no client had to send one
    assert "1 times after 0 failures" in ledger.violations.pop()
    ledger.check_dead_letters(["m0!"], exactly=False)  # 5.x
    assert "1 times after 0 failures" in ledger.violations.pop()


# -- order ---------------------------------------------------------------------------------------


def test_an_orderly_queue_has_one_consumer_and_an_order(orderly: ProgressLedger) -> None:
    consume(orderly, 0, 1)  # C-58, B-45
    start(orderly, 2)
    start(orderly, 1, client="c2", epoch=2)
    assert "two consumers" in orderly.violations.pop()
    orderly.client_gone("c1")
    orderly.abandoned("c2", Q0)
    start(orderly, 3, client="c2", epoch=3)
    assert "out of order: c2 gets 3 before 2" in orderly.violations.pop()


@pytest.mark.parametrize(("ok", "then", "fine"), [
    (True, 3, True), (True, 2, False), (False, 2, True), (False, 3, False),
])  # fmt: skip
def test_within_one_ownership_a_failed_message_comes_again_and_others_do_not(
    orderly: ProgressLedger, ok: bool, then: int, fine: bool
) -> None:
    consume(orderly, 0, 1, 2, 3)
    consume(orderly, 2, ok=ok, epoch=2)
    orderly.broker_restarted("a", {}, {Q0: 4}, 100.0, crashed=False)  # no excuse
    start(orderly, then, epoch=2)
    assert (not orderly.violations) is fine


def test_an_old_lock_may_be_given_back_while_the_listener_runs_on(orderly: ProgressLedger) -> None:
    start(orderly, 0)  # C-30
    orderly.let_go("c1", Q0)
    start(orderly, 0, client="c2", epoch=2)
    assert not orderly.violations
    start(orderly, 0, client="c3", epoch=3)
    assert orderly.violations


def test_for_30_s_after_a_broker_restart_order_is_not_promised(orderly: ProgressLedger) -> None:
    orderly.broker_restarted("a", {}, {}, 100.0, crashed=True)  # B-45, C-52
    start(orderly, 0, now=110.0)
    start(orderly, 0, client="c2", epoch=2, now=130.0)
    assert not orderly.violations
    start(orderly, 0, client="c3", epoch=3, now=130.5)
    assert orderly.violations


def test_a_listener_that_began_in_those_30_s_may_end_after_them(orderly: ProgressLedger) -> None:
    orderly.broker_restarted("a", {}, {}, 100.0, crashed=True)
    start(orderly, 0, now=110.0)
    start(orderly, 0, client="c2", epoch=2, now=110.0)
    orderly.ended("c1", Q0, 0, "m0", 0, ok=True)
    start(orderly, 1, now=135.0)  # while the listener of c2 still has the first message
    assert not orderly.violations
    orderly.ended("c2", Q0, 0, "m0", 0, ok=True)
    start(orderly, 1, client="c2", epoch=3, now=136.0)
    assert "two consumers" in orderly.violations.pop()


# -- owners --------------------------------------------------------------------------------------


def settled(
    mode: Mode = Mode.CONCURRENT,
    *,
    first: frozenset[MessageQueue] = frozenset(),
    second: frozenset[MessageQueue] = frozenset(),
) -> OwnershipLedger:
    ledger = OwnershipLedger(mode)
    ledger.queues(frozenset({Q0, Q1}), 0.0)
    ledger.alive(frozenset({"c1", "c2"}), 0.0)
    for client in ("c1", "c2"):
        ledger.known(client, frozenset({Q0, Q1}), 0.0)
    ledger.view("a", ("c1", "c2"), 10.0)
    ledger.owned("c1", first)
    ledger.owned("c2", second)
    return ledger


ONE, OTHER, BOTH, NONE = (
    frozenset({Q0}),
    frozenset({Q1}),
    frozenset({Q0, Q1}),
    frozenset[MessageQueue](),
)


@pytest.mark.parametrize(
    ("mode", "first", "second", "ok"),
    [
        (Mode.CONCURRENT, ONE, OTHER, True),
        (Mode.CONCURRENT, BOTH, OTHER, False),
        (Mode.CONCURRENT, ONE, NONE, False),
        (Mode.BROADCAST, BOTH, BOTH, True),
        (Mode.BROADCAST, BOTH, OTHER, False),
    ],
)
def test_21_s_after_the_members_changed_each_queue_has_exactly_its_owners(
    mode: Mode, first: frozenset[MessageQueue], second: frozenset[MessageQueue], ok: bool
) -> None:
    ledger = settled(mode, first=first, second=second)
    ledger.check(30.9)
    assert ledger.seen["settled"] == 0
    ledger.check(31.1)
    assert ledger.seen["settled"] == 1
    assert (not ledger.violations) is ok


def test_an_orderly_queue_may_wait_for_the_lock_of_a_dead_owner(  # B-50
) -> None:
    ledger = settled(Mode.ORDERLY)
    ledger.check(92.9)
    assert not ledger.violations
    ledger.check(93.1)
    assert ledger.violations


def test_until_then_it_has_at_most_one_owner() -> None:
    ledger = settled(Mode.ORDERLY, first=ONE)
    ledger.check(31.1)
    assert (ledger.seen["settled but for locks"], ledger.violations) == (1, [])
    ledger.owned("c2", ONE)
    ledger.check(31.2)
    assert "not at most one owner" in ledger.violations[0]


def test_after_a_notification_2_s_are_enough() -> None:
    ledger = settled()
    ledger.notified("a", "c1", 10.0, 10.1)
    ledger.check(13.0)
    assert ledger.seen["notified"] == 0  # c2 has not heard yet
    ledger.notified("a", "c2", 10.0, 11.5)
    ledger.check(13.4)
    assert ledger.seen["notified"] == 0
    ledger.check(13.6)
    assert ledger.seen["notified"] == 1
    assert ledger.violations


def test_after_trouble_the_21_s_begin_when_the_last_request_has_timed_out() -> None:
    ledger = settled()
    ledger.trouble(50.0)
    ledger.check(73.9)
    assert not ledger.violations
    ledger.check(74.1)
    assert ledger.violations


def test_nothing_is_asked_while_brokers_disagree_or_know_a_dead_client() -> None:  # C-29
    ledger = settled()
    ledger.view("b", ("c1",), 20.0)
    ledger.check(100.0)
    ledger.view("b", ("c1", "c2", "c2"), 110.0)
    ledger.check(200.0)
    assert (ledger.seen["settled"], ledger.violations) == (0, [])


def test_a_new_process_knows_nothing_of_what_the_last_one_of_its_name_knew() -> None:
    ledger = settled(first=ONE, second=OTHER)
    ledger.alive(frozenset({"c2"}), 20.0)
    ledger.alive(frozenset({"c1", "c2"}), 21.0)  # brokers do not know yet that c1 had died
    ledger.check(60.0)
    assert (ledger.seen["settled"], ledger.violations) == (0, [])


def test_a_client_may_not_know_its_queues_for_as_long_as_routes_take() -> None:  # B-3, P-3
    ledger = settled(first=ONE, second=OTHER)
    ledger.known("c1", frozenset({Q0}), 20.0)
    ledger.owned("c2", frozenset())
    ledger.check(82.0)
    assert not ledger.violations
    ledger.check(83.1)
    assert ledger.violations


@pytest.mark.parametrize(
    ("popped_ms", "times", "said"),
    [
        (8_000, 0, None),  # 8.0 to 13.0 s, and its answer took long
        (9_500, 0, "while it is hidden until 14500"),
        (8_000, 1, "and counts 1 tries still"),
        (17_000, 2, "while it is hidden until 19000"),
        (19_000, 2, None),
    ],
)
def test_pops_are_judged_in_the_order_in_which_the_broker_did_them(
    popped_ms: int, times: int, said: str | None
) -> None:
    violations: list[str] = []
    ledger = PopLedger(violations)
    ledger.handed_out("m", Delivery("pop1", "a", 14_000, 19_000, times=1))
    ledger.handed_out("m", Delivery("pop2", "a", popped_ms, popped_ms + 5_000, times=times))
    assert len(violations) == (said is not None)
    assert said is None or said in violations[0]


def test_a_time_changed_when_it_was_over_leaves_two_copies() -> None:  # K-54
    violations: list[str] = []
    ledger = PopLedger(violations)
    ledger.handed_out("m", Delivery("pop1", "a", 1_000, 11_000, times=0))
    ledger.changed_late("m")
    ledger.handed_out("m", Delivery("pop3", "a", 13_000, 23_000, times=1))
    ledger.handed_out("m", Delivery("pop2", "a", 18_000, 28_000, times=1))
    assert not violations


def test_a_queue_that_leads_to_messages_that_are_gone_may_do_so_for_a_minute() -> None:  # S-73
    violations: list[str] = []
    starts = QueueStarts(violations)
    for queue in (Q0, Q1):
        starts.expired(queue, begins=2, first=5, now=10.0)
        starts.begins_at(queue, 2, 70.0)
    starts.begins_at(Q0, 5, 70.0)
    assert not violations
    starts.begins_at(Q1, 2, 71.0)
    [violation] = violations
    assert "begins at 2, its first message is 5" in violation
    starts.restarted("a")
    assert not starts.is_open
