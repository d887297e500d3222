"""A table is saved soon after a change; many changes share a save."""

from __future__ import annotations

import asyncio

from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.runtime.errors import DiskError


class Storage:
    """A slow disk."""

    def __init__(self) -> None:
        self.saves = 0
        self.gate = asyncio.Event()
        self.failure: DiskError | None = None

    async def save(self) -> None:
        await self.gate.wait()
        self.saves += 1
        if self.failure is not None:
            raise self.failure


async def test_changes_during_a_save_share_the_next_one() -> None:
    storage, done = Storage(), []
    table = SavedTable("topics", storage.save)
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
    SavedTable("topics", Storage().save).when_saved(lambda: done.append(1))
    assert done == [1]


async def test_a_failed_save_is_logged_and_keeps_nobody_waiting() -> None:
    storage, done = Storage(), []
    storage.failure = DiskError("/x", "is full")
    storage.gate.set()
    table = SavedTable("topics", storage.save)
    table.changed()
    table.when_saved(lambda: done.append(1))
    await table.stop()
    assert done == [1]
    storage.failure = None
    table.changed()
    await table.stop()
    assert storage.saves == 2


async def test_who_comes_while_the_last_change_is_being_written_waits_for_that_write() -> None:
    storage, done = Storage(), []
    table = SavedTable("topics", storage.save)
    table.changed("a")
    await asyncio.sleep(0)  # noqa: TID251 - the save begins
    table.when_saved(lambda: done.append("a"))
    assert done == []
    storage.gate.set()
    await table.stop()
    assert done == ["a"]
    assert storage.saves == 1
