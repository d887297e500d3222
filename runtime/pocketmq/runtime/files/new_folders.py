"""Folders that are made with their missing parents, and whose names survive a power cut.

What lies under a name that does not survive is lost, however well it was synced itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from typing import Final

from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.files.descriptors import FOR_FILES

_NOT_OURS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL)


def make_lasting(path: str | os.PathLike[str]) -> None:
    """Make a folder and its missing parents, and bring their names to the disk.

    Raises:
        OSError: It cannot be done.
    """
    absolute = os.path.abspath(path)
    sync_names(absolute, make_folders(absolute), sync_folder)


def make_folders(path: str, mode: int = 0o777) -> list[str]:
    """Make a folder and its missing parents; those that it has made, the uppermost first.

    Args:
        path: Absolute.
        mode: Of each.

    Raises:
        OSError: One cannot be made.
    """
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        try:
            os.mkdir(each, mode)
        except FileExistsError:
            if not os.path.isdir(each):  # somebody else made it just now, or a file is in the way
                raise
    return missing[::-1]


def sync_names(path: str, made: Sequence[str], sync: Callable[[str], None]) -> None:
    """Bring the names of folders to the disk; of what was there already its own.

    It may have been made by a process that was killed before it synced it.

    Args:
        path: The folder.
        made: What `make_folders` has made of it.
        sync: Brings the names in a folder to the disk.
    """
    for each in made or [path]:
        try:
            sync(os.path.dirname(each))
        except (OSError, DiskError) as exc:
            # Above a home directory nothing is ours, and `/home` may not be readable to us; nor
            # does every file system that a folder may be mounted in sync its folders.
            reason = exc.__cause__ if isinstance(exc, DiskError) else exc
            if not isinstance(reason, OSError) or reason.errno not in _NOT_OURS:
                raise


def sync_folder(path: str) -> None:
    """Return when names made, changed or removed in `path` survive a power cut.

    Raises:
        OSError: The file system refuses.
    """
    descriptor = FOR_FILES.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
