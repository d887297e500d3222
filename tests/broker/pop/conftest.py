"""Where brokers that serve pops keep their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.memory_folder import memory_folder


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory: such a test syncs 26 times, and half of its time it waited for the disk."""
    with memory_folder(tmp_path) as folder:
        yield folder
