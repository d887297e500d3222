"""A table is saved soon after a change; many changes share a save."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.broker.tables.saved_tables import AFTER_FAILURE_S, SavedTable
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock

START_MS = 1_700_000_000_000


class Storage:
    """A slow disk."""

    def __init__(self) -> None:
        self.saves = 0
        self.gate = asyncio.Event()
        self.failure: Exception | None = None

    async def save(self) -> None:
        await self.gate.wait()
        self.saves += 1
        if self.failure is not None:
            raise self.failure


async def move_on(clock: ManualClock, seconds: float) -> None:
    await clock.move_to(clock.time_ms() + round(1000 * seconds))


async def test_changes_during_a_save_share_the_next_one() -> None:
    storage, done = Storage(), []
    table = SavedTable("topics", storage.save, ManualClock(START_MS))
    assert table.is_saved
    table.changed("a")
    table.when_saved(lambda: done.append("a"))
    await asyncio.sleep(0)  # noqa: TID251 - the save begins
    for name in "bcd":
        table.changed(name)
        table.when_saved(lambda name=name: done.append(name))  # type: ignore[misc]
    assert not table.is_saved
    storage.gate.set()
    await table.stop()
    assert storage.saves == 2
    assert done == ["a", "b", "c", "d"]
    assert table.is_saved


async def test_who_waits_for_nothing_is_called_at_once() -> None:
    done: list[int] = []
    SavedTable("topics", Storage().save, ManualClock(START_MS)).when_saved(lambda: done.append(1))
    assert done == [1]


async def test_a_failed_save_is_logged_and_keeps_nobody_waiting() -> None:
    storage, done = Storage(), []
    storage.failure = DiskError("/x", "is full")
    storage.gate.set()
    table = SavedTable("topics", storage.save, ManualClock(START_MS))
    table.changed()
    table.when_saved(lambda: done.append(1))
    await asyncio.sleep(0)  # noqa: TID251 - the save runs
    assert done == [1]
    assert storage.saves == 1
    await table.stop()
    assert storage.saves == 2, "a last try; a stop does not wait for the disk"


async def test_who_comes_while_the_last_change_is_being_written_waits_for_that_write() -> None:
    storage, done = Storage(), []
    table = SavedTable("topics", storage.save, ManualClock(START_MS))
    table.changed("a")
    await asyncio.sleep(0)  # noqa: TID251 - the save begins
    table.when_saved(lambda: done.append("a"))
    assert done == []
    storage.gate.set()
    await table.stop()
    assert done == ["a"]
    assert storage.saves == 1


@pytest.mark.parametrize("failure", [DiskError("/x", "is full"), RuntimeError("a bug")])
async def test_a_save_that_failed_is_made_again_without_a_change(failure: Exception) -> None:
    storage, clock, done = Storage(), ManualClock(START_MS), []
    storage.gate.set()
    storage.failure = failure
    table = SavedTable("topics", storage.save, clock)
    table.changed()
    await move_on(clock, AFTER_FAILURE_S - 1)
    assert storage.saves == 1
    await move_on(clock, 1)
    assert storage.saves == 2, "and the disk is still full"
    storage.failure = None
    await move_on(clock, AFTER_FAILURE_S)
    assert storage.saves == 3
    await move_on(clock, 10 * AFTER_FAILURE_S)
    assert storage.saves == 3, "it succeeded"
    table.when_saved(lambda: done.append(1))
    assert done == [1]


async def test_a_change_after_a_failure_is_saved_at_once_and_nothing_afterwards() -> None:
    storage, clock = Storage(), ManualClock(START_MS)
    storage.gate.set()
    storage.failure = DiskError("/x", "is full")
    table = SavedTable("topics", storage.save, clock)
    table.changed()
    await move_on(clock, 1)
    storage.failure = None
    table.changed()
    await asyncio.sleep(0)  # noqa: TID251 - the save runs
    assert storage.saves == 2
    await move_on(clock, 10 * AFTER_FAILURE_S)
    assert storage.saves == 2


async def test_a_stop_saves_what_could_not_be_saved() -> None:
    storage, clock = Storage(), ManualClock(START_MS)
    storage.gate.set()
    storage.failure = DiskError("/x", "is full")
    table = SavedTable("topics", storage.save, clock)
    table.changed()
    await move_on(clock, 1)
    storage.failure = None
    await table.stop()
    assert storage.saves == 2
    await move_on(clock, 10 * AFTER_FAILURE_S)
    assert storage.saves == 2
