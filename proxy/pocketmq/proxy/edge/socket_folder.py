"""The temporary folder of one proxy's Unix sockets, which outlives no proxy for long.

A proxy that is killed cannot remove its folder, so the next one on the machine does. A file in the
folder is locked for as long as its proxy lives; the system releases the lock however it ends.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "pmq-"
_LOCK: Final = "alive"
_MOST_PATH: Final = 18
"""Characters of the temporary folder: behind it come 13 of our own folder, 11 of a number and three
marks, and up to 60 of an address; the path of a Unix socket has 104."""


class SocketFolder:
    """A folder that only this user can enter, made at once; those of killed proxies are removed.

    Raises:
        OSError: It cannot be made.
    """

    def __init__(self) -> None:
        where = tempfile.gettempdir()
        # The path of a Unix socket is bounded by the system; macOS's temporary folders alone are
        # half of it.
        if len(where) > _MOST_PATH:
            where = "/tmp"  # noqa: S108 - mkdtemp makes a folder of our own
        # could be better: a folder whose proxy was killed before its lock had a name stays for
        # good.
        for each in Path(where).glob(f"{PREFIX}*"):
            _remove_if_left(each)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=where))
        # Lock the file before it gets its name: an unlocked one then means that its proxy has
        # ended.
        begun = self.path / "begun"
        self._lock = os.open(begun, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        begun.rename(self.path / _LOCK)

    def remove(self) -> None:
        """Remove it; may be called twice."""
        # Before the lock goes: another proxy that starts now must not remove files while we do.
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _remove_if_left(folder: Path) -> None:
    try:
        # No symbolic link is followed: anybody may make a name like ours in the temporary folder.
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # another user's, or one that is being made
        return
    try:
        with suppress(OSError):  # its proxy lives
            # Held until the folder is gone, so that two proxies that start together do not both
            # remove it.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)
