"""What a master does for a slave, a slave for its master, and who waits for both; no I/O."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.broker.replication.ack_waiter import AckWaiter
from pocketmq.broker.replication.ha_frames import HaStreamError
from pocketmq.broker.replication.ha_master import LogBounds, SlaveLink, Slice
from pocketmq.broker.replication.ha_slave import MasterLink
from pocketmq.broker.replication.rules import AckRules, HaRules
from pocketmq.broker.store import PutStatus

LOG = LogBounds(low=0, high=2500, file_bytes=1000)
RULES = HaRules(batch_bytes=300)


def link(rules: HaRules = RULES) -> SlaveLink:
    return SlaveLink("slave:1", rules, now=0.0)


def sent(slave: SlaveLink, log: LogBounds = LOG, now: float = 0.0) -> list[Slice]:
    return list(iter(lambda: slave.next_slice(log, now), None))


def test_nothing_is_sent_before_the_first_report() -> None:  # H-31
    assert link().next_slice(LOG, 100.0) is None


def test_an_empty_slave_gets_the_last_file() -> None:  # H-35, B-132
    slave = link()
    slave.reported(0, LOG, 0.0)
    assert sent(slave) == [Slice(2000, 300), Slice(2300, 200)]


def test_a_slave_goes_on_where_its_log_ends_and_no_frame_crosses_a_file() -> None:  # H-20
    slave = link()
    slave.reported(1900, LOG, 0.0)
    assert sent(slave) == [Slice(1900, 100), Slice(2000, 300), Slice(2300, 200)]
    assert slave.acked == 1900
    assert slave.lag_bytes(2500) == 600


def test_a_heartbeat_follows_5_s_of_silence_and_says_the_next_offset() -> None:  # H-37
    slave = link()
    slave.reported(2500, LOG, 0.0)
    assert sent(slave, now=5.0) == []
    assert slave.next_slice(LOG, 5.1) == Slice(2500, 0)
    assert slave.next_slice(LOG, 10.0) is None


@pytest.mark.parametrize(
    ("offset", "low", "says"),
    [
        (2501, 0, "slave:1 ends at 2501, but the master's log ends earlier, at 2500"),
        (500, 1000, "has deleted the messages in between"),
    ],
)
def test_a_slave_that_cannot_be_continued_is_told_why(offset: int, low: int, says: str) -> None:
    # H-32, H-39, W-3
    with pytest.raises(HaStreamError, match=says):
        link().reported(offset, LogBounds(low, 2500, 1000), 0.0)


def test_a_slave_that_is_silent_for_20_s_is_given_up() -> None:  # H-34
    slave = link()
    assert not slave.is_silent(20.0)
    assert slave.is_silent(20.1)


def test_a_report_tells_that_the_slave_lives() -> None:  # H-34
    slave = link()
    slave.reported(100, LOG, 15.0)
    assert not slave.is_silent(35.0)
    assert slave.is_silent(35.1)


def test_what_a_master_knows_of_a_slave() -> None:  # H-41
    slave = link(HaRules(max_gap_bytes=600))
    assert (slave.acked, slave.next_offset, slave.sent_bytes) == (-1, -1, 0)
    assert slave.lag_bytes(2500) == 2500
    assert not slave.is_in_sync(0)
    assert slave.reported(1900, LOG, 0.0)
    assert not slave.reported(1900, LOG, 0.0)
    assert slave.reported(1901, LOG, 0.0)
    assert (slave.lag_bytes(2500), slave.lag_bytes(1900)) == (599, 0)
    assert slave.is_in_sync(2500)
    assert not slave.is_in_sync(2501)
    assert sum(size for _, size in sent(slave)) == slave.sent_bytes == 600


def test_a_slave_may_be_at_either_end_of_the_log() -> None:  # H-35, H-39
    log = LogBounds(1000, 2500, 1000)
    slave = link()
    slave.reported(1000, log, 0.0)
    assert sent(slave, log)[0] == Slice(1000, 300)
    assert link().reported(2500, log, 0.0)
    late = LogBounds(2100, 2500, 1000)  # of the last file only the end is left
    slave = link()
    slave.reported(0, late, 0.0)
    assert sent(slave, late)[0] == Slice(2100, 300)


def test_a_report_beyond_the_end_is_taken_where_the_rules_say_so() -> None:  # H-32, W-3
    slave = link(HaRules(drop_reports_beyond_end=False))
    assert slave.reported(2501, LOG, 0.0)
    assert sent(slave) == []


def test_a_frame_puts_the_next_heartbeat_off() -> None:  # H-37
    slave = link()
    slave.reported(2400, LOG, 0.0)
    assert sent(slave, now=4.0) == [Slice(2400, 100)]
    assert sent(slave, now=9.0) == []
    assert sent(slave, now=9.1) == [Slice(2500, 0)]


@given(
    high=st.integers(1, 5000),
    start=st.integers(1, 5000),
    batch=st.integers(1, 700),
    file_bytes=st.integers(1, 900),
)
def test_the_frames_are_the_log_from_the_report_to_its_end(
    high: int, start: int, batch: int, file_bytes: int
) -> None:
    start = min(start, high)
    slave = link(HaRules(batch_bytes=batch))
    log = LogBounds(0, high, file_bytes)
    slave.reported(start, log, 0.0)
    pieces = sent(slave, log)
    at = start
    for piece in pieces:
        assert piece.offset == at
        assert 0 < piece.size <= batch
        assert piece.offset // file_bytes == (piece.offset + piece.size - 1) // file_bytes
        at += piece.size
    assert at == high


# -- the slave ------------------------------------------------------------------------------------


def test_a_slave_reports_what_it_has_appended_and_every_5_s() -> None:  # H-24
    master = MasterLink(HaRules(), 100, now=0.0)
    assert master.framed(100, 50, 100, 1.0)
    assert master.appended(150, 1.0) == 150
    assert master.appended(150, 1.1) is None
    assert master.tick(150, 6.0) is None
    assert master.tick(150, 6.1) == 150


def test_a_link_counts_its_times_from_its_beginning() -> None:  # H-24, H-28
    master = MasterLink(HaRules(), 100, now=10.0)
    assert (master.is_silent(30.0), master.is_silent(30.1)) == (False, True)
    assert master.tick(100, 15.0) is None
    assert master.tick(100, 15.1) == 100


def test_one_byte_is_appended_too() -> None:
    assert MasterLink(HaRules(), 100, now=0.0).framed(100, 1, 100, 1.0)


def test_a_frame_elsewhere_ends_the_link_also_as_a_heartbeat() -> None:  # H-25
    master = MasterLink(HaRules(), 100, now=0.0)
    for size in (0, 50):
        with pytest.raises(HaStreamError, match="this slave's log ends at 100"):
            master.framed(150, size, 100, 1.0)


def test_an_empty_slave_takes_any_offset() -> None:  # H-26
    assert MasterLink(HaRules(), 0, now=0.0).framed(7000, 50, 0, 1.0)


def test_a_slave_knows_how_far_its_master_is() -> None:
    master = MasterLink(HaRules(), 100, now=0.0)
    assert (master.reported, master.master_offset) == (100, -1)
    assert not master.framed(-1, 0, 100, 1.0), "a master without a log says -1"
    assert master.master_offset == -1
    master.framed(100, 50, 100, 1.0)
    assert master.master_offset == 150
    master.framed(0, 0, 0, 1.0)
    assert master.master_offset == 150


def test_a_heartbeat_says_that_the_master_lives() -> None:  # H-28
    master = MasterLink(HaRules(), 100, now=0.0)
    assert not master.framed(100, 0, 100, 19.0)
    assert not master.is_silent(39.0)
    assert master.is_silent(39.1)


# -- those that wait ------------------------------------------------------------------------------

OK, LATE, NONE = (
    PutStatus.PUT_OK,
    PutStatus.FLUSH_SLAVE_TIMEOUT,
    PutStatus.SLAVE_NOT_AVAILABLE,
)


def test_a_message_waits_until_as_many_replicas_have_it_as_wanted() -> None:  # H-52
    heard: list[tuple[int, PutStatus]] = []
    waiter = AckWaiter(AckRules(in_sync_replicas=3))
    for end in (100, 200):
        waiter.wait(end, [0, 0], 0.0, lambda status, end=end: heard.append((end, status)))
    waiter.acked([200, 99])
    assert heard == []
    waiter.acked([200, 150])
    assert heard == [(100, OK)]
    waiter.expired([200, 150], 3.0)
    assert heard == [(100, OK), (200, LATE)]


def test_whoever_is_replicated_when_the_time_is_over_is_told_so() -> None:  # H-51, W-7
    heard: list[PutStatus] = []
    waiter = AckWaiter(AckRules(in_sync_replicas=2, timeout_s=3.0))
    waiter.wait(100, [], 0.0, heard.append)
    waiter.wait(200, [], 0.0, heard.append)
    waiter.expired([100], 3.0)
    assert heard == [OK, LATE]
    assert waiter.next_deadline is None


def test_the_wait_ends_at_the_first_ones_deadline() -> None:  # H-51
    waiter = AckWaiter(AckRules(in_sync_replicas=2, timeout_s=3.0))
    assert (len(waiter), waiter.next_deadline) == (0, None)
    for now in (10.0, 11.0):
        waiter.wait(100, [], now, lambda _status: None)
    assert (len(waiter), waiter.next_deadline) == (2, 13.0)
    waiter.expired([], 13.0)
    assert (len(waiter), waiter.next_deadline) == (1, 14.0)


def test_who_wants_fewer_replicas_does_not_wait_behind_who_wants_more() -> None:  # W-7
    heard: list[PutStatus] = []
    waiter = AckWaiter(AckRules(in_sync_replicas=3))
    waiter.wait(100, [], 0.0, heard.append)
    waiter.rules = AckRules(in_sync_replicas=2)
    waiter.wait(200, [], 0.0, heard.append)
    waiter.expired([200], 3.0)
    assert heard == [LATE, OK]


def test_the_numbers_are_rocketmqs() -> None:  # H-20 to H-52
    rules, acks = HaRules(), AckRules()
    assert (rules.batch_bytes, rules.max_gap_bytes) == (32_768, 268_435_456)
    assert (rules.heartbeat_s, rules.housekeeping_s, rules.retry_s) == (5.0, 20.0, 5.0)
    assert rules.drop_reports_beyond_end
    assert (acks.in_sync_replicas, acks.timeout_s, acks.max_gap_bytes) == (1, 3.0, 268_435_456)
    assert not acks.refuse_without_slave


def test_one_replica_waits_for_nobody() -> None:  # B-141, H-50
    heard: list[PutStatus] = []
    AckWaiter(AckRules(in_sync_replicas=1)).wait(100, [], 0.0, heard.append)
    assert heard == [OK]


@pytest.mark.parametrize(
    ("acks", "first"),
    [([], [NONE]), ([-1], [NONE]), ([50], [NONE]), ([51], []), ([90], []), ([100], [OK])],
)
def test_4_9_says_at_once_that_no_slave_is_in_reach(
    acks: list[int], first: list[PutStatus]
) -> None:  # B-140
    heard: list[PutStatus] = []
    waiter = AckWaiter(AckRules(refuse_without_slave=True, max_gap_bytes=50))
    waiter.wait(100, acks, 0.0, heard.append)
    assert heard == first
    waiter.expired(acks, 3.0)
    assert heard == (first or [LATE])


def test_a_slave_that_has_nothing_yet_is_in_reach_of_a_young_master() -> None:  # B-140
    heard: list[PutStatus] = []
    waiter = AckWaiter(AckRules(refuse_without_slave=True, max_gap_bytes=50))
    waiter.wait(40, [0], 0.0, heard.append)
    assert heard == []
    waiter.acked([40])
    assert heard == [OK]


def test_a_master_no_more_tells_nobody_ok() -> None:  # I-17
    heard: list[PutStatus] = []
    waiter = AckWaiter(AckRules(in_sync_replicas=2))
    waiter.wait(100, [], 0.0, heard.append)
    waiter.give_up()
    waiter.acked([100])
    assert heard == [LATE]
