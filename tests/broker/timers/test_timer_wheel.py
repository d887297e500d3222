"""The wheel in memory and the records of its log, one step at a time (T-111 to T-145)."""

from __future__ import annotations

import pytest

from pocketmq.broker.timers.layout import (
    BLANK_SLOTS,
    DELETE,
    NORMAL,
    ROLL,
    SLOTS,
    Checkpoint,
    LogRecord,
    Slot,
    blank,
    is_blank,
)
from pocketmq.broker.timers.wheel import EMPTY, TimerWheel, encode_slot
from pocketmq.protocol.bodies.topics import DataVersion

SIZE = 32
RECORD = LogRecord(-1, 1, 5_000, 3_000, 7, 8, 9)


def units(wheel: TimerWheel) -> dict[int, Slot]:
    return wheel.take_dirty()


def file_of(**slots: Slot) -> memoryview:
    content = bytearray(SLOTS * SIZE)
    for unit, slot in slots.items():
        at, data = encode_slot(int(unit.removeprefix("u")), slot)
        content[at : at + SIZE] = data
    return memoryview(content)


def test_a_slot_leads_to_its_first_and_newest_record_and_counts_messages_less_cancels() -> None:
    wheel = TimerWheel(200)
    assert (wheel.get(1_000), wheel.waiting, len(wheel)) == (Slot(-1, -1, 0), 0, 0)
    assert wheel.next_ms() is None
    assert not wheel.is_dirty
    wheel.add(1_000, 52, 1)
    wheel.add(1_199, 104, 1)
    wheel.add(1_000, 156, -1)
    wheel.add(800, 208, 1)
    assert wheel.get(1_100) == Slot(52, 156, 1)
    assert (wheel.waiting, len(wheel), wheel.next_ms()) == (2, 2, 800)
    assert units(wheel) == {5: Slot(52, 156, 1), 4: Slot(208, 208, 1)}
    assert not wheel.is_dirty


def test_a_wheel_that_was_cleared_knows_nothing() -> None:
    wheel = TimerWheel(1_000)
    wheel.add(5_000, 0, 1)
    wheel.clear()
    assert (len(wheel), wheel.next_ms(), wheel.is_dirty) == (0, None, False)
    wheel.add(9_000, 52, 1)
    assert wheel.get(5_000) == EMPTY
    assert wheel.next_ms() == 9_000


def test_the_next_slot_is_the_first_that_is_not_done() -> None:
    wheel = TimerWheel(1_000)
    for slot_ms in (5_000, 2_000, 9_000):
        wheel.add(slot_ms, 0, 1)
    wheel.done(2_000)
    wheel.done(2_000)
    assert wheel.next_ms() == 5_000
    wheel.add(2_000, 52, 1)
    assert (wheel.next_ms(), wheel.get(2_000)) == (2_000, Slot(52, 52, 1))
    for slot_ms in (2_000, 5_000, 9_000):
        wheel.done(slot_ms)
    assert (wheel.next_ms(), len(wheel)) == (None, 0)


def test_recovery_points_a_slot_at_the_last_record_found() -> None:  # T-145
    wheel = TimerWheel(1_000)
    wheel.add(1_000, 52, 3)
    units(wheel)
    wheel.point_at(1_000, 52)
    assert units(wheel) == {1: Slot(52, 52, 3)}, "the file may have it in the page cache only"
    wheel.point_at(1_000, 260)
    wheel.point_at(2_000, 312)
    assert units(wheel) == {1: Slot(52, 260, 3), 2: Slot(312, 312, 1)}


def test_what_leads_beyond_the_log_s_end_is_forgotten() -> None:  # T-145
    wheel = TimerWheel(1_000)
    for slot_ms, position in ((1_000, 52), (2_000, 104), (3_000, 156)):
        wheel.add(slot_ms, position, 1)
    wheel.drop_behind(104)
    assert (len(wheel), wheel.next_ms(), wheel.get(2_000)) == (1, 1_000, EMPTY)


def test_delivered_slots_are_cleared_where_time_comes_again_and_waiting_ones_stay() -> None:
    wheel = TimerWheel(1_000)
    wheel.add(3_000, 52, 1)
    units(wheel)
    wheel.forget_between(2_000, 5_000)
    found = units(wheel)
    assert sorted(found) == [2, 4]
    assert [encode_slot(unit, slot) for unit, slot in sorted(found.items())] == [
        (2 * SIZE, bytes(SIZE)),
        (4 * SIZE, bytes(SIZE)),
    ]


def test_what_changed_since_a_failed_write_is_newer_than_what_it_would_have_written() -> None:
    wheel = TimerWheel(1_000)
    wheel.add(1_000, 52, 1)
    wheel.add(2_000, 104, 1)
    failed = units(wheel)
    wheel.add(1_000, 156, 1)
    wheel.still_dirty(failed)
    assert units(wheel) == {1: Slot(52, 156, 2), 2: Slot(104, 104, 1)}


def test_a_file_is_read_in_its_ranges_from_the_time_that_is_not_delivered() -> None:
    content = file_of(
        u39=Slot(1, 1, 1), u40=Slot(2, 3, 4), u5000=Slot(5, 6, 7), u9000=Slot(8, 8, 8)
    )
    wheel = TimerWheel(1_000)
    wheel.load(content, [(0, 3), (40 * SIZE + 5, 5_001 * SIZE)], 40_000)
    assert len(wheel) == 2
    assert (wheel.get(40_000), wheel.get(5_000_000)) == (Slot(2, 3, 4), Slot(5, 6, 7))
    assert (wheel.next_ms(), wheel.is_dirty) == (40_000, False)


def test_the_first_time_counts_wherever_it_lies_in_the_file() -> None:  # T-111: it is a ring
    wheel = TimerWheel(1_000)
    content = bytearray(file_of(u5000=Slot(5, 6, 7)))
    at, data = encode_slot(SLOTS + 3, Slot(1, 1, 1))
    content[at : at + SIZE] = data
    wheel.load(memoryview(content), [(0, len(content))], 0)
    assert (len(wheel), wheel.next_ms()) == (2, 5_000_000)


def test_slots_that_were_never_used_are_none_even_from_the_beginning_of_time() -> None:
    wheel = TimerWheel(1_000)
    wheel.load(file_of(u1=Slot(1, 1, 1)), [(0, 64 * SIZE)], 0)
    assert (len(wheel), wheel.next_ms()) == (1, 1_000)


def test_a_slot_s_place_comes_again_after_fourteen_days() -> None:  # T-111
    assert encode_slot(3, Slot(1, 1, 1))[0] == encode_slot(3 + SLOTS, Slot(1, 1, 1))[0] == 3 * SIZE


def test_what_waits_is_counted_by_how_far_ahead_it_is() -> None:
    wheel = TimerWheel(200)
    for slot_ms, change in (
        (9_800, 1), (10_000, 2), (14_800, 4), (15_000, 8), (69_800, 16), (70_000, 32),
    ):  # fmt: skip
        wheel.add(slot_ms, 0, change)
    assert wheel.ahead(10_000, [5, 60]) == [(5, 6), (60, 24)]
    assert wheel.ahead(10_000, []) == []
    wheel.add(10_000 + 3_600_000, 0, 64)
    assert wheel.ahead(10_000, [3_600]) == [(3_600, 62)]


def test_the_numbers_of_the_files_are_rocketmq_s() -> None:  # T-111, T-112
    assert (SLOTS, BLANK_SLOTS) == (1_209_600, 60)
    assert (NORMAL, ROLL, DELETE) == (1, 2, 4)


def test_a_record_says_what_it_is() -> None:  # T-112
    assert RECORD.slot_ms == 8_000
    assert not RECORD.is_roll
    assert not RECORD.is_delete
    assert [(r.is_roll, r.is_delete) for m in (3, 5, 7) if (r := RECORD._replace(magic=m))] == [
        (True, False),
        (False, True),
        (True, True),
    ]


def test_a_record_is_read_only_where_a_whole_one_stands() -> None:  # T-112, T-145
    data = bytes(4) + RECORD.encode()
    assert LogRecord.decode(data, 4) == RECORD
    assert LogRecord.decode(data, 5) is None
    assert LogRecord.decode(data[:-1], 4) is None
    assert LogRecord.decode(RECORD._replace(magic=15).encode()) is not None
    assert LogRecord.decode(RECORD._replace(magic=16).encode()) is None
    assert LogRecord.decode(b"\0\0\0\x33" + RECORD.encode()[4:]) is None


def test_a_file_is_closed_by_a_blank_or_by_its_end() -> None:  # T-113
    assert blank(99).hex() == "00000063" + "00" * 8 + "cbd43194"
    assert is_blank(bytes(5) + blank(99), 5)
    assert not is_blank(RECORD.encode(), 0)
    assert not is_blank(bytes(16), 0)
    assert is_blank(bytes(16), 1)


@pytest.mark.parametrize("size", [0, 8, 55])
def test_a_short_checkpoint_counts_as_zeros_behind_its_end(size: int) -> None:  # T-114
    version = DataVersion(state_version=5, timestamp=6, counter=7)
    data = Checkpoint(1, 2, 3, 4, version).encode()
    assert Checkpoint.decode(data + b"rest") == Checkpoint(1, 2, 3, 4, version)
    assert Checkpoint.decode(data[:size]).encode() == data[:size].ljust(56, b"\0")
