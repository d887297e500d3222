"""Which offsets of an acting slave its master takes when it returns: Z-9, Z-10."""

from __future__ import annotations

import pytest

from pocketmq.broker.delays.delay import DelayPlanner
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pocketmq.protocol.bodies.topics import DataVersion

REVIVE = "CID_RMQ_SYS_REVIVE_GROUP"


def table(**committed: int) -> ConsumerOffsetManager:
    offsets = ConsumerOffsetManager()
    for group, offset in committed.items():
        offsets.commit(group, "T", 0, offset, 0)
    return offsets


def theirs(counter: int = 0, **committed: int) -> ConsumerOffsetTable:
    return ConsumerOffsetTable(
        data_version=DataVersion(counter=counter),
        offset_table={f"T@{group}": {0: offset} for group, offset in committed.items()},
    )


@pytest.mark.parametrize(("counter", "expected"), [(0, 3), (1, 3)])
def test_a_table_that_is_as_new_or_newer_is_right(counter: int, expected: int) -> None:
    # Z-10: less than 500 commits while acting do not move the version
    mine = table(readers=7, idle=2)
    changed = mine.take_back(theirs(counter, readers=expected, new=4), lambda _t, _q: 100)
    assert [mine.query(group, "T", 0) for group in ("readers", "idle", "new")] == [expected, 2, 4]
    assert (changed, mine.count, mine.data_version.counter) == (2, 3, counter)


def test_of_an_older_table_only_what_is_further_counts() -> None:
    mine = table(readers=7, others=7)
    mine.data_version = DataVersion(counter=5)
    mine.take_back(theirs(4, readers=9, others=3), lambda _t, _q: 100)
    assert (mine.query("readers", "T", 0), mine.query("others", "T", 0)) == (9, 7)
    assert mine.data_version.counter == 5


def test_what_the_broker_has_done_itself_is_not_done_again() -> None:
    mine = ConsumerOffsetManager()
    mine.commit(REVIVE, "T", 0, 50, 0)
    slave = ConsumerOffsetTable(offset_table={f"T@{REVIVE}": {0: 20}})
    mine.take_back(slave, lambda _t, _q: 100)
    assert mine.query(REVIVE, "T", 0) == 50


def test_every_queue_of_every_group_is_taken_whatever_stands_before_it() -> None:
    mine = table(readers=7)
    mine.unsaved.take()
    slave = ConsumerOffsetTable(
        offset_table={
            "no group": {0: 1},
            "T@readers": {0: 7, 1: 2},
            "T@new": {0: 4, 1: 5},
        },
    )
    assert mine.take_back(slave, lambda _t, _q: 100) == 3
    assert (mine.query("readers", "T", 1), mine.query("new", "T", 1)) == (2, 5)
    assert mine.count == 4
    assert mine.unsaved, "a kill would forget what was committed to the slave"


def test_a_slave_takes_its_masters_version_with_the_offsets() -> None:
    slave = ConsumerOffsetManager()
    slave.merge(ConsumerOffsetTable(data_version=DataVersion(counter=3, timestamp=5)))
    assert slave.data_version == DataVersion(counter=3, timestamp=5)


def test_no_offset_is_taken_beyond_the_end_of_its_queue() -> None:  # I-10
    mine = table(readers=3)
    mine.take_back(theirs(readers=12), lambda _t, _q: 8)
    assert mine.query("readers", "T", 0) == 8


def test_delay_offsets_only_grow() -> None:
    planner = DelayPlanner([0, 1000, 5000])
    planner.load(DelayOffsetTable(offset_table={1: 10, 2: 10}))
    planner.take_back(DelayOffsetTable(offset_table={1: 4, 2: 12}))
    assert planner.wrapper().offset_table == {1: 10, 2: 12}
    assert planner.common() == planner.wrapper(), "the slave, which has it, hears of it again"
    assert planner.unsaved, "a kill would deliver again what the slave delivered"


def test_a_level_that_neither_has_delivered_begins_with_its_first_message() -> None:
    planner = DelayPlanner([0, 1000, 5000])
    planner.take_back(DelayOffsetTable(offset_table={1: 4}))
    assert planner.wrapper().offset_table == {1: 4, 2: 0}


def test_a_table_is_newer_than_its_copy_from_the_moment_that_its_slave_acts() -> None:  # Z-10
    master = ConsumerOffsetManager()
    slave = ConsumerOffsetManager()
    slave.merge(master.wrapper())
    assert not slave.unsaved
    slave.note_acting(1_000)
    assert slave.unsaved
    slave.commit("readers", "T", 0, 5, 1_001)
    fresh = ConsumerOffsetManager()
    fresh.data_version = DataVersion(timestamp=9_000)  # as RocketMQ's is after a kill
    fresh.take_back(slave.wrapper(), lambda _t, _q: 100)
    assert fresh.query("readers", "T", 0) == 5
    assert fresh.data_version == slave.data_version
