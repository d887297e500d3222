"""A look at a row of files, without a mapping: how recovery sees most consume queues.

Most queues are short: their entries, and zeros behind, are in the first two pages of their last
file. To read those takes a third of the time of mapping them, and a start after a kill looks at
each queue of a store.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from pocketmq.runtime.descriptors import FOR_FILES
from pocketmq.runtime.text_files import disk_error


class RowLook(NamedTuple):
    """What such a look has found."""

    names: list[str]
    """Of the files, sorted."""
    size: int = 0
    """Bytes of the whole last file; 0 when there is none."""
    content: bytes = b""
    """Its first bytes, as many as were asked for or it has."""
    next_data: int | None = None
    """First byte behind them that may not be zero; None when there is none."""


def row_names(names: list[str]) -> list[str]:
    """Those of a directory's names that are offsets, sorted."""
    return sorted(name for name in names if len(name) == 20 and name.isdigit())


def look_at_row(directory: str, length: int, flags: int) -> RowLook:
    """Read the names in a directory, and the first bytes of the last file.

    Args:
        directory: of the files; there are none when it does not exist.
        length: bytes to read, few.
        flags: with which to open the file, `O_RDONLY` or `O_RDWR`.

    Raises:
        DiskError: the system refuses it.
    """
    path = directory
    names: list[str] = []
    try:
        names = row_names(os.listdir(directory))
        if not names:
            return RowLook(names)
        path = f"{directory}/{names[-1]}"
        descriptor = FOR_FILES.open(path, flags)
        try:
            if _CAN_ADVISE:
                # Else the system would read ahead, of a queue 6 MB of zeros.
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
            content = os.pread(descriptor, length, 0)
            size = os.lseek(descriptor, 0, os.SEEK_END)
            following = next_data(descriptor, length) if size > length else None
            return RowLook(names, size, content, following)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return RowLook(names)
    except OSError as exc:
        raise disk_error(path, exc) from exc


def next_data(descriptor: int, position: int) -> int | None:
    """First byte at or behind `position` that may not be zero; None when there is none.

    Args:
        descriptor: of an open file.
        position: in it; may lie at its end or behind.

    Raises:
        OSError: as the system says it.
    """
    try:
        return os.lseek(descriptor, position, os.SEEK_DATA)
    except OSError as exc:
        if exc.errno == errno.ENXIO:  # also at and behind the file's end
            return None
        if exc.errno == errno.EINVAL:  # a file system that does not tell
            return position if position < os.fstat(descriptor).st_size else None
        raise


_CAN_ADVISE = hasattr(os, "posix_fadvise")  # macOS has none
