"""The order of durability of timers, on a medium made by hand."""

from __future__ import annotations

import pytest

from pocketmq.broker.timers.layout import (
    CHECKPOINT,
    RECORD,
    SLOT,
    SLOTS,
    WHEEL_SIZE,
    Checkpoint,
    LogRecord,
    Slot,
)
from pocketmq.broker.timers.wheel import encode_slot
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from pocketmq.simulation.invariants import timer_files
from simulation.handmade import Medium

CHECK = "/a/config/timercheck"
DUE_MS = 1_700_000_100_000


def log_file(number: int) -> str:
    return f"/a/timerlog/{number * 104:020d}"


def logged(start: int, previous: int = -1) -> bytes:
    return LogRecord(previous, 1, DUE_MS - 5000, 5000, start, 100, 0).encode()


def wheel(last: int) -> bytes:
    at, data = encode_slot(DUE_MS // 1000, Slot(0, last, 1))
    return bytes(at) + data + bytes(WHEEL_SIZE - at - len(data))


class Timers:
    """Three messages that wait for one time; the timer log's files have two records each."""

    def __init__(self) -> None:
        self.medium = Medium()
        self.starts = [
            self.medium.write(body, TIMER_TOPIC, waits_for="T",
                              properties={"TIMER_OUT_MS": str(DUE_MS)})
            for body in (b"m0", b"m1", b"m2")
        ]  # fmt: skip
        self.medium.sync()

    def keep_log(self, *files: tuple[int, ...]) -> None:
        """Files of the timer log with records of these messages."""
        position = 0
        for number, messages in enumerate(files):
            content = b""
            for each in messages:
                content += logged(self.starts[each], position - 52)
                position += 52
            self.medium.keep(log_file(number), content.ljust(104, b"\0"))

    def note(self, read_ms: int, log_end: int, taken_in: int) -> list[str]:
        """What the ledger says of a checkpoint."""
        checkpoint = Checkpoint(read_ms, log_end, taken_in).encode()
        return self.medium.note(CHECK, checkpoint.ljust(4096, b"\0"))


@pytest.fixture
def timers() -> Timers:
    return Timers()


def test_the_files_are_read_as_the_store_writes_them() -> None:
    assert timer_files.RECORD.format == RECORD.struct.format
    assert timer_files.SLOT.format == SLOT.struct.format
    assert CHECKPOINT.struct.format.startswith(timer_files.CHECKPOINT.format)
    assert timer_files.SLOTS == SLOTS


def test_what_is_taken_in_is_in_the_timer_log(timers: Timers) -> None:
    timers.keep_log((0,))
    assert timers.note(0, 52, 1) == []
    [violation] = timers.note(0, 52, 2)
    assert "m1 at 1 of the wheel topic is not in the timer log, and 1 is noted" in violation


def test_what_a_restart_finds_missing_it_takes_in_anew(timers: Timers) -> None:
    timers.keep_log((0,))
    assert timers.note(0, 104, 2) == []


@pytest.mark.parametrize(("last", "found"), [(52, []), (0, ["m1"]), (None, ["m0", "m1"])])
def test_the_wheel_leads_to_what_is_in_older_files(
    timers: Timers, last: int | None, found: list[str]
) -> None:
    timers.keep_log((0, 1), (2,))
    if last is not None:
        timers.medium.keep("/a/timerwheel", wheel(last))
    assert [each.split()[2] for each in timers.note(0, 156, 3)] == found


def test_a_slot_is_passed_when_its_copies_are_on_the_disk(timers: Timers) -> None:
    timers.keep_log((0, 1))
    timers.medium.write(b"m0")
    timers.medium.sync()
    timers.medium.write(b"m1")
    [violation] = timers.note(DUE_MS + 1000, 104, 2)
    assert f"m1 at 1 of the wheel topic is not delivered, and {DUE_MS + 1000} is" in violation


def test_what_was_taken_back_needs_no_copy(timers: Timers) -> None:
    timers.medium.write(
        b"c", TIMER_TOPIC, waits_for="T",
        properties={"TIMER_OUT_MS": str(DUE_MS), "TIMER_DEL_UNIQKEY": "T+m0"},
    )  # fmt: skip
    timers.medium.sync()
    timers.keep_log((0,))
    assert timers.note(DUE_MS + 1000, 52, 1) == []


def test_the_log_passes_nothing_that_is_neither_in_it_nor_delivered(timers: Timers) -> None:
    content = (logged(timers.starts[0]) + logged(timers.starts[2])).ljust(104, b"\0")
    [violation] = timers.medium.note(log_file(0), content)
    assert "m1 at 1 of the wheel topic is neither delivered nor logged, and 2 is" in violation
    fresh = Timers()
    fresh.medium.write(b"m1")
    fresh.medium.sync()
    assert fresh.medium.note(log_file(0), content) == []
