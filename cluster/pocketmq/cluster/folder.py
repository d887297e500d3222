"""The folder with a cluster's files: one that the user chose, or a temporary one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pocketmq.runtime.errors import DiskError, PeerError
from pocketmq.runtime.files.new_folders import make_lasting

USER_FILE: Final = "super-user.json"
"""In a cluster's data folder, where its brokers check requests: the user by whom it is steered."""

MADE_FILE: Final = "config/users-made.json"
"""In a broker's folder, beside its users: names of those that were made for the cluster there."""

MEMBER_FILE: Final = "member-secret"
"""In a cluster's data folder, where its members prove who they are: what they all know."""


@dataclass(slots=True)
class DataFolder:
    """A folder for stores, logs and records."""

    path: Path
    is_kept: bool
    """Whether it is kept after the cluster has stopped; may be set while the cluster runs."""


@contextmanager
def data_folder(chosen: Path | None) -> Iterator[DataFolder]:
    """The chosen folder, created if missing; else a temporary one that is removed at the end.

    A temporary one is kept when a process failed and the error names a log in it.

    Raises:
        DiskError: It cannot be created.
    """
    folder = DataFolder(_make(chosen), is_kept=chosen is not None)
    try:
        yield folder
    except PeerError as exc:
        # The error names a log in this folder, so the log has to stay.
        folder.is_kept = folder.is_kept or str(folder.path) in str(exc)
        raise
    finally:
        if not folder.is_kept:
            shutil.rmtree(folder.path, ignore_errors=True)


def _make(chosen: Path | None) -> Path:
    if chosen is None:
        return Path(tempfile.mkdtemp(prefix="pocketmq-"))
    try:
        make_lasting(chosen)
    except OSError as exc:
        reason = exc.strerror or str(exc)
        raise DiskError(chosen, reason, advice="choose another folder") from exc
    # Absolute, so that the path stays valid in processes with another working folder.
    return chosen.resolve()
