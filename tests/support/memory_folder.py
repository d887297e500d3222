"""Folders in memory, where a test waits for no disk."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30
"""So much must be free: a container's has often 64 MB, and a test of a broker writes a gigabyte."""


@contextmanager
def memory_folder(otherwise: Path) -> Iterator[Path]:
    """A folder in memory for the length of a block, or the other one where there is no room.

    What a killed process has written is there for the next one, as on a disk; `fsync` returns at
    once. Tests of what a power cut leaves have disks of their own (`model_disk.py`).
    """
    if not IN_MEMORY.is_dir() or shutil.disk_usage(IN_MEMORY).free < ROOM_BYTES:
        yield otherwise
        return
    with TemporaryDirectory(
        prefix="pocketmq-test-", dir=IN_MEMORY, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
