"""Who is in sync with a master, and how far consumers may see (H-143 to H-154)."""

from __future__ import annotations

from pocketmq.broker.replication.sync_state import ALONE, SyncState

LAG_S = 15.0


def master(ids: set[int], *, epoch_start: int = 0) -> SyncState:
    sync = SyncState(LAG_S)
    sync.named(1)
    sync.begin(frozenset(ids), 1, epoch_start, now=0.0)
    return sync


def join(sync: SyncState, slave_id: int, offset: int, now: float = 0.0) -> object:
    connection = object()
    sync.connected(slave_id, connection)
    sync.reported(slave_id, connection, offset, now)
    return connection


def test_a_slave_joins_when_it_has_what_is_confirmed_and_the_epoch_s_beginning() -> None:
    sync = master({1}, epoch_start=100)  # H-152
    join(sync, 2, 99)
    assert sync.wanted(50, 0.0) is None
    join(sync, 2, 100)
    assert sync.wanted(150, 0.0) is None
    join(sync, 2, 150)
    assert sync.wanted(150, 0.0) == {1, 2}


def test_slaves_that_connect_while_a_broker_becomes_master_count() -> None:
    sync = SyncState(LAG_S)
    sync.named(1)
    join(sync, 2, 100)
    join(sync, 3, 100)
    sync.begin(frozenset({1, 2}), 7, 100, now=50.0)
    assert sync.lowest_ack() == 100
    assert sync.wanted(100, 50.0) == {1, 2, 3}
    assert sync.wanted(100, 50.0 + LAG_S) == {1, 2, 3}, "a member has the time of one that lags"


def test_who_left_before_a_broker_became_master_has_time_to_come_back() -> None:
    sync = SyncState(LAG_S)
    sync.named(1)
    sync.gone(2, join(sync, 2, 100))
    sync.begin(frozenset({1, 2}), 7, 100, now=50.0)
    assert sync.lowest_ack() == -1
    assert sync.wanted(100, 50.0) is None


def test_while_a_proposal_is_unanswered_both_sets_count() -> None:
    sync = master({1})  # H-150, F-5
    join(sync, 2, 100)
    assert sync.lowest_ack() == ALONE
    sync.asked(frozenset({1, 2}))
    assert sync.lowest_ack() == 100
    sync.asked(frozenset({1, 3}))  # F-31: the first may still take effect
    assert sync.members == {1, 2, 3}
    assert sync.lowest_ack() == -1
    assert sync.told(frozenset({1, 2}), 2)
    assert sync.members == {1, 2}
    assert not sync.told(frozenset({1}), 2)


def test_a_new_term_forgets_what_the_last_one_asked_and_knew() -> None:
    sync = master({1})
    join(sync, 2, 100)
    sync.asked(frozenset({1, 2}))
    sync.begin(frozenset({1}), 2, 0, now=9.0)
    assert (sync.members, sync.others, sync.is_asking) == ({1}, set(), False)
    sync.asked(frozenset({1, 2}))
    assert sync.is_asking
    sync.end()
    assert (sync.members, sync.acked, sync.is_asking) == (set(), {}, False)
    assert sync.told(frozenset({3}), 1), "it knows no epoch any more"


def test_only_a_slaves_present_connection_says_how_far_it_is() -> None:
    sync = master({1, 2})
    old = join(sync, 2, 100)
    new = object()
    sync.connected(2, new)
    assert sync.acked == {2: -1}
    sync.reported(2, old, 100, 5.0)
    sync.reported(3, old, 100, 5.0)
    assert sync.acked == {2: -1}
    sync.reported(2, new, 90, 5.0)
    assert (sync.acked, sync.lowest_ack()) == ({2: 90}, 90)
    sync.reported(2, new, 100, 3.0)  # what was known of its time stays
    assert sync.wanted(100, 5.0 + LAG_S) is None
    sync.gone(2, new)
    assert (sync.acked, sync.lowest_ack()) == ({}, -1)
    sync.gone(3, new)
    join(sync, 2, 100, now=6.0)
    assert sync.wanted(100, 7.0) is None, "it is back"


def test_consumers_see_no_more_than_the_log_has() -> None:
    assert master({1}).confirm_offset(40, 100) == 100
    sync = master({1, 2})
    join(sync, 2, 120)
    assert sync.confirm_offset(40, 100) == 100


def test_a_refused_proposal_counts_no_more() -> None:
    sync = master({1})
    sync.asked(frozenset({1, 2}))
    sync.answered()
    assert (sync.members, sync.is_asking) == ({1}, False)


def test_a_member_leaves_when_it_is_gone_or_was_not_at_the_end_for_too_long() -> None:
    sync = master({1, 2, 3})  # H-126, H-153
    assert sync.wanted(0, LAG_S) is None  # they may still come
    second = join(sync, 2, 100)
    join(sync, 3, 100)
    assert sync.wanted(100, LAG_S) is None
    assert sync.wanted(100, LAG_S + 0.1) == {1}
    join(sync, 3, 200, now=10.0)
    join(sync, 2, 200, now=10.0)
    assert sync.wanted(200, 20.0) is None
    sync.gone(2, second)  # an older connection's end says nothing
    assert sync.wanted(200, 20.0) is None
    sync.gone(3, join(sync, 3, 200, now=10.0))
    assert sync.wanted(200, 20.0) == {1, 2}


def test_the_confirmed_offset_stands_still_while_a_member_is_away() -> None:
    sync = master({1, 2})  # F-6
    assert sync.confirm_offset(40, 100) == 40
    connection = join(sync, 2, 80)
    assert sync.confirm_offset(40, 100) == 80
    assert sync.confirm_offset(90, 100) == 90  # it never falls
    sync.gone(2, connection)
    assert sync.confirm_offset(80, 100) == 80


def test_a_replica_knows_nobody_before_the_controller_says_so() -> None:
    sync = SyncState(LAG_S)
    assert (sync.own_id, sync.set_epoch, sync.others) == (0, 0, set())
    assert sync.told(frozenset({1, 2}), 1)
    assert sync.others == {1, 2}


def test_what_is_no_master_counts_nobody() -> None:
    sync = master({1, 2})
    sync.end()
    assert sync.wanted(0, 100.0) is None
    assert sync.members == set()
