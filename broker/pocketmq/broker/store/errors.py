"""What can go wrong between the store and its files.

DiskError (runtime)
├── DiskFullError (runtime)  no space left: the caller's message is refused, reads go on
├── IllegalPathError     a name that is more than one path component
└── StoreFileError       a file cannot be what its name says; names file and position
EnvironmentFault (runtime)
└── StoreLockedError     another process has this store open
"""

from __future__ import annotations

from pathlib import Path

from pocketmq.runtime.errors import DiskError, EnvironmentFault


class IllegalPathError(DiskError):
    """A name would lead out of the directory that it belongs in; nothing was touched."""

    def __init__(self, directory: Path | str, name: str) -> None:
        super().__init__(
            directory,
            f"{name[:200]!r} leads out of it or is no file name",
            advice="rename the topic or group: letters, digits, '_', '-', '%' and '|'",
        )


class StoreFileError(DiskError):
    """A store file has a length or content that is wrong and cannot be repaired."""

    def __init__(
        self, path: Path | str, reason: str, *, position: int | None = None, advice: str
    ) -> None:
        self.position = position or 0
        """Byte in the file at which it stops making sense."""
        where = "" if position is None else f" (at byte {position})"
        super().__init__(path, f"{reason}{where}", advice=advice)


class StoreLockedError(EnvironmentFault):
    """Another process works on the store, and two writers would destroy it."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        super().__init__(f"{directory} is open in another process; stop that broker first")
