"""Where a cluster keeps its files: a folder of the user's choice, or a temporary one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pocketmq.runtime.errors import DiskError, PeerError


@dataclass(slots=True)
class DataFolder:
    """A folder for stores, logs and records."""

    path: Path
    is_kept: bool
    """Whether it stays after the cluster has stopped; may be set while it runs."""


@contextmanager
def data_folder(chosen: Path | None) -> Iterator[DataFolder]:
    """The chosen folder, made if need be; else a temporary one that is removed at the end.

    A temporary one stays when a process failed: the error names a log in it.

    Raises:
        DiskError: It cannot be made.
    """
    folder = DataFolder(_make(chosen), is_kept=chosen is not None)
    try:
        yield folder
    except PeerError:
        folder.is_kept = True
        raise
    finally:
        if not folder.is_kept:
            shutil.rmtree(folder.path, ignore_errors=True)


def _make(chosen: Path | None) -> Path:
    if chosen is None:
        return Path(tempfile.mkdtemp(prefix="pocketmq-"))
    try:
        chosen.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(chosen, reason, advice="choose another folder") from exc
    return chosen.resolve()
