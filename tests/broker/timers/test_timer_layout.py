"""Timer files, against bytes that RocketMQ's classes wrote (T-110 to T-115)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pocketmq.broker.store import OsDisk
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.files import TimerFiles
from pocketmq.broker.timers.layout import (
    CHECKPOINT_SIZE,
    SLOT,
    SLOTS,
    WHEEL_SIZE,
    Checkpoint,
    LogRecord,
    Slot,
    TimerMetrics,
)
from pocketmq.broker.timers.log import TimerLog
from pocketmq.broker.timers.wheel import TimerWheel, encode_slot
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import encode_json
from pocketmq.protocol.java import java_hash
from pocketmq.runtime.errors import DiskError
from support.disks import FullDisk
from support.java_lines import java_lines, java_text

T_MS = 1795336266000


def java_records() -> list[LogRecord]:
    return [
        LogRecord(
            52 * (i - 1) if i else -1, 5 if i == 4 else 1 + 2 * (i % 2), T_MS, 3000 + i, 239 + i,
            271, java_hash("TT"),
        )
        for i in range(5)
    ]  # fmt: skip


def slots_of_java(prefix: str) -> dict[int, bytes]:
    found = {n: t for n, [t, *_] in java_lines().items() if n.startswith(f"{prefix}.")}
    return {
        int(name.rpartition(".")[2]): bytes.fromhex(text)
        for name, text in found.items()
        if name.rpartition(".")[2].isdigit()
    }


def written(wheel: TimerWheel) -> dict[int, bytes]:
    """Position in the file -> bytes of what a flush writes."""
    return dict(encode_slot(unit, slot) for unit, slot in wheel.take_dirty().items())


def test_slots_are_written_where_and_as_rocketmq_writes_them() -> None:  # T-111
    assert int(java_text("wheel.length")) == WHEEL_SIZE
    wheel = TimerWheel(1000)
    for slot_ms, slot in (
        (T_MS, Slot(104, 1560, 12)),
        (T_MS + 1000, Slot(156, 156, 1)),
        (T_MS + 604_800_000, Slot(208, 260, -1)),
    ):
        wheel.add(slot_ms, slot.first, slot.waiting)
        wheel.add(slot_ms, slot.last, 0)
    assert written(wheel) == slots_of_java("wheel")
    assert not wheel.is_dirty
    fine = TimerWheel(100)
    fine.add(T_MS + 300, 0, 1)
    assert written(fine) == slots_of_java("wheel100ms")


def test_a_slot_that_was_to_be_cleared_is_cleared_after_a_failed_write() -> None:
    wheel = TimerWheel(1000)
    wheel.add(5_000, 0, 1)
    wheel.done(5_000)
    wheel.forget_between(0, 9_000)  # the clock was set back
    wheel.still_dirty(wheel.take_dirty())
    assert written(wheel)[5 * SLOT.struct.size] == bytes(SLOT.struct.size)


def test_a_wheel_that_rocketmq_wrote_is_read_from_the_time_that_is_not_yet_delivered() -> None:
    content = bytearray(WHEEL_SIZE)
    for position, data in slots_of_java("wheel").items():
        content[position : position + 32] = data
    wheel = TimerWheel(1000)
    wheel.load(memoryview(content), [(0, WHEEL_SIZE)], T_MS + 1000)
    assert len(wheel) == 2
    assert wheel.next_ms() == T_MS + 1000
    assert wheel.get(T_MS + 604_800_000) == Slot(208, 260, -1)
    assert SLOTS * 32 == WHEEL_SIZE


def test_the_log_s_files_are_those_that_rocketmq_writes(tmp_path: Path) -> None:  # T-112, T-113
    log = TimerLog(OsDisk(), str(tmp_path), 200)
    log.load()
    positions = [log.append(record) for record in java_records()]
    assert positions == [int(text) for text in java_lines()["timerlog.position"]]
    for name in ("0" * 20, "0" * 17 + "200"):
        written = (tmp_path / "timerlog" / name).read_bytes()
        assert written.hex() == java_text(f"timerlog.{name}")


def test_a_log_that_rocketmq_wrote_is_recovered(tmp_path: Path) -> None:  # T-145
    (tmp_path / "timerlog").mkdir()
    for name in ("0" * 20, "0" * 17 + "200"):
        data = bytes.fromhex(java_text(f"timerlog.{name}"))
        (tmp_path / "timerlog" / name).write_bytes(data)
    log = TimerLog(OsDisk(), str(tmp_path), 200)
    log.load()
    found: dict[int, LogRecord] = {}
    assert log.recover(0, found.__setitem__) == 304 == log.end
    assert list(found.values()) == java_records()
    assert log.last_record() == java_records()[-1]
    assert log.append(java_records()[0]) == 304
    assert log.append(java_records()[0]) == 400  # 52 + 16 bytes do not fit any more
    assert [log.read(at) for at in found] == java_records()


def test_the_checkpoint_is_written_as_rocketmq_writes_it() -> None:  # T-114
    check = Checkpoint(1795336263000, 884, 17, 18, DataVersion(timestamp=1795336263764, counter=54))
    assert check.encode().hex() == java_text("timercheck") == java_text("timercheck.wire")
    assert Checkpoint.decode(check.encode()) == check
    assert Checkpoint.decode(b"") == Checkpoint()
    assert int(java_text("timercheck.length")) == CHECKPOINT_SIZE


def test_the_counts_are_written_as_rocketmq_writes_them() -> None:  # T-115
    read = msgspec.json.decode(java_text("timermetrics"), type=TimerMetrics)
    assert read.timing_count["TT"].count == 3
    assert encode_json(read).decode() == java_text("timermetrics")


async def test_counts_that_cannot_be_read_begin_anew(tmp_path: Path) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "timermetrics").write_text("{")
    (folder / "timermetrics.bak").write_text("")
    disk, root, counts = OsDisk(), str(tmp_path), TimerCounts()
    files = TimerFiles(disk, root, TimerLog(disk, root, 1 << 16), TimerWheel(1000), counts)
    await files.load_counts()
    assert counts.wrapper().timing_count == {}


async def test_counts_that_could_not_be_written_are_with_the_next_flush(tmp_path: Path) -> None:
    disk, root, counts = FullDisk(), str(tmp_path), TimerCounts()
    disk.is_full = True
    files = TimerFiles(disk, root, TimerLog(disk, root, 1 << 16), TimerWheel(1000), counts)
    counts.change("T", 3, T_MS)
    with pytest.raises(DiskError):
        await files.flush(0)
    disk.is_full = False
    await files.flush(0)
    files.close()
    found = TimerCounts()
    await TimerFiles(
        disk, root, TimerLog(disk, root, 1 << 16), TimerWheel(1000), found
    ).load_counts()
    assert found.of("T") == 3
