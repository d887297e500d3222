"""A store whose topic changes between two reads: made anew, cut by retention."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.spark_store import START_MS, open_store, put, stored

HOUR_MS = 3_600_000


def write(
    root: Path, numbers: Iterable[int], *, hours: int = 0, topic: str = "T", size: int = 0
) -> None:
    """Add a message for each number to queue 0, stored so many hours after the start."""
    with open_store(root, ManualClock(START_MS + hours * HOUR_MS)) as store:
        for number in numbers:
            put(store, [stored(b"%d" % number + b" " * size, topic=topic)])


def remake(root: Path, numbers: Iterable[int]) -> None:
    """Another store in the same place, an hour later."""
    shutil.rmtree(root)
    write(root, numbers, hours=1)


def retain(root: Path, files: int) -> None:
    """Remove the first files of the log, as retention does."""
    for path in sorted((root / "commitlog").iterdir())[:files]:
        path.unlink()
