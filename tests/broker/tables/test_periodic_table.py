"""A table that is written periodically while it changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.store import OsDisk
from pocketmq.broker.tables.json_files import JsonFile
from pocketmq.broker.tables.periodic_table import PeriodicTable
from pocketmq.broker.tables.table_file import TableFile
from pocketmq.broker.tables.unsaved import Unsaved
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock


@pytest.mark.parametrize("error", [DiskError("/x", "is full"), RuntimeError("a bug")])
async def test_what_could_not_be_saved_is_saved_in_the_next_period(
    tmp_path: Path, error: Exception
) -> None:
    clock, unsaved, errors = ManualClock(1_700_000_000_000), Unsaved(), [error]

    def content() -> dict[str, int]:
        if errors:
            raise errors.pop()
        return {"T@g": 7}

    path = tmp_path / "config" / "offsets.json"
    file = TableFile(path, OsDisk(), clock, dict[str, int], lambda _table: None, content)
    table = PeriodicTable(file, unsaved, clock, 5.0)
    await table.start()
    unsaved.note()
    for _ in range(3):
        await clock.move_to(clock.time_ms() + 10_000)
    await table.stop()
    assert await JsonFile(path, OsDisk()).load() == {"T@g": 7}
