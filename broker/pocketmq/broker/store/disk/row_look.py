"""A look at a row of files, without a mapping: how recovery sees most consume queues.

Most queues are short: their entries, and zeros behind, are in the first two pages of their last
file. To read those takes a third of the time of mapping them, and a start after a kill looks at
each queue of a store.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from pocketmq.runtime.files.descriptors import FOR_FILES
from pocketmq.runtime.files.text_files import disk_error


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


def look_at_row(directory: str, length: int, file_size: int, flags: int) -> RowLook:
    """Read the names in a directory, and the first bytes of the last file.

    A row gets its second file when the first is full. So where a first file has nothing but zeros
    behind the bytes that are read, and no second one is there, the directory is not listed.

    Args:
        directory: of the files; there are none when it does not exist.
        length: bytes to read, few.
        file_size: bytes of each file; 0 to list the directory in any case.
        flags: with which to open the file, `O_RDONLY` or `O_RDWR`.

    Raises:
        DiskError: the system refuses it.
    """
    path = f"{directory}/{_FIRST}"
    names = [_FIRST]
    try:
        if file_size and not os.access(f"{directory}/{file_size:020d}", os.F_OK):
            look = _look(path, names, length, flags)
            if look.size == file_size > length and look.next_data is None:
                return look
        path = directory
        names = row_names(os.listdir(directory))
        path = f"{directory}/{names[-1]}" if names else directory
        return _look(path, names, length, flags) if names else RowLook(names)
    except (FileNotFoundError, NotADirectoryError):
        return RowLook([])  # there is no such directory
    except OSError as exc:
        raise disk_error(path, exc) from exc


def _look(path: str, names: list[str], length: int, flags: int) -> RowLook:
    """Read the start of a row's last file, which may be missing."""
    try:
        descriptor = FOR_FILES.open(path, flags)
    except (FileNotFoundError, NotADirectoryError):
        return RowLook(names)
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


_FIRST = "0" * 20
_CAN_ADVISE = hasattr(os, "posix_fadvise")  # macOS has none
