"""A disk that fails, or ends the process, at its N-th call: every crash point, one by one.

The environment variable `POCKETMQ_DISK_FAULT` puts it into a broker's own process:

    kill@17               SIGKILL at the 17th call, in the middle of it where it writes
    eio@5                 the 5th call fails with EIO
    enospc@9+             the 9th call and all that follow fail with ENOSPC
    eio@2:sync            the 2nd `sync`
    kill@1:rename:config  the 1st `rename` whose path contains `config`

Calls that read or change something count; listings and lengths do not, they cannot leave anything
half done.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import structlog

from pocketmq.broker.store.disk.disk import Disk, DiskFile, OsDisk
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.files.text_files import explained

log = structlog.get_logger()

VARIABLE = "POCKETMQ_DISK_FAULT"

OPERATIONS = (
    "make_directory", "create_file", "resize_file", "open_file", "map_file", "next_data",
    "read_file", "write_file", "read_text", "write_text", "rename", "remove_file",
    "remove_directory", "sync_directory", "reserve", "sync", "verify", "lock",
)  # fmt: skip
"""The operations that a fault can name, and that are counted."""

_ERRNO = {"eio": errno.EIO, "enospc": errno.ENOSPC}
_FAULT = re.compile(r"(kill|eio|enospc)@(\d+)(\+?)(?::(\w+)(?::(.+))?)?")


class Fault(NamedTuple):
    """What happens, and when."""

    kind: str
    """`kill`, `eio` or `enospc`."""
    at: int
    """Number of the call, from 1."""
    lasts: bool = False
    """Whether all later calls fail too."""
    operation: str = ""
    """Only calls of this operation count; empty for all."""
    path_part: str = ""
    """Only paths that contain it count."""

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read `kind@number[+][:operation[:part of path]]`.

        Raises:
            ConfigError: it is something else.
        """
        match = _FAULT.fullmatch(text)
        if match is None or int(match[2]) < 1:
            raise ConfigError(
                VARIABLE, f"{text!r} is no fault", advice="write kill@17 or eio@2:sync"
            )
        operation = match[4] or ""
        if operation and operation not in OPERATIONS:
            raise ConfigError(
                VARIABLE,
                f"no call is named {operation!r}",
                advice=f"one of {', '.join(OPERATIONS)}",
            )
        return cls(match[1], int(match[2]), bool(match[3]), operation, match[5] or "")


def disk_of(environment: Mapping[str, str]) -> Disk:
    """The real disk, or one with the fault that the environment asks for.

    Raises:
        ConfigError: the variable cannot be read.
    """
    text = environment.get(VARIABLE)
    if not text:
        return OsDisk()
    fault = Fault.parse(text)
    log.warning("disk.fault_armed", fault=text)
    return FaultDisk(fault)


class FaultDisk(OsDisk):
    """The real disk with one fault; safe to call from several threads.

    Args:
        fault: what happens; None only counts.
    """

    def __init__(self, fault: Fault | None = None) -> None:
        self.calls = 0
        """How many calls counted so far."""
        self._fault = fault
        self._counting = threading.Lock()

    def is_due(self, operation: str, path: str) -> bool:
        """Count a call; returns whether the fault applies to it."""
        fault = self._fault
        # Count only calls that the fault names, so that `eio@2:sync` means the second sync.
        if fault is not None and (
            (fault.operation and fault.operation != operation) or fault.path_part not in path
        ):
            return False
        # Several threads call this; a wrong count would move the crash point.
        with self._counting:
            self.calls += 1
            number = self.calls
        if fault is None:
            return False
        return number == fault.at or (fault.lasts and number > fault.at)

    def meet(self, path: str) -> None:
        """Cause the fault.

        Raises:
            DiskError: of the kind that was asked for.
        """
        assert self._fault is not None
        self.fail(self._fault, path)

    @staticmethod
    def fail(fault: Fault, path: str) -> None:
        """Cause this fault.

        Raises:
            DiskError: of the kind that was asked for.
        """
        if fault.kind == "kill":
            # SIGKILL prevents any cleanup, as in a real crash.
            os.kill(os.getpid(), signal.SIGKILL)
        number = _ERRNO[fault.kind]
        with explained(path):
            raise OSError(number, os.strerror(number))

    @contextmanager
    def counted(self, operation: str, path: str) -> Iterator[None]:
        """Around a call that happens whole or not at all."""
        if self.is_due(operation, path):
            self.meet(path)
        yield

    def make_directory(self, path: str, *, lasting: bool = False) -> None:
        with self.counted("make_directory", path):
            super().make_directory(path, lasting=lasting)

    def create_file(self, path: str, size: int) -> None:
        if self.is_due("create_file", path):
            super().create_file(path, 0)  # made, and not yet given its length
            self.meet(path)
        super().create_file(path, size)

    def resize_file(self, path: str, size: int) -> None:
        with self.counted("resize_file", path):
            super().resize_file(path, size)

    def open_file(self, path: str) -> DiskFile:
        with self.counted("open_file", path):
            return _FaultFile(self, path, super().open_file(path))

    def map_file(self, path: str, size: int) -> memoryview:
        with self.counted("map_file", path):
            return super().map_file(path, size)

    def map_for_reading(self, path: str, size: int) -> memoryview:
        with self.counted("map_file", path):
            return super().map_for_reading(path, size)

    def next_data(self, path: str, position: int) -> int | None:
        with self.counted("next_data", path):
            return super().next_data(path, position)

    def read_file(self, path: str) -> bytes | None:
        with self.counted("read_file", path):
            return super().read_file(path)

    def write_file(self, path: str, content: bytes) -> None:
        # Write half of the content, as a crash in the middle of a write would.
        if self.is_due("write_file", path):
            super().write_file(path, content[: len(content) // 2])
            self.meet(path)
        super().write_file(path, content)

    async def read_text(self, path: str) -> str | None:
        with self.counted("read_text", path):
            return await super().read_text(path)

    async def write_text(self, path: str, text: str) -> None:
        if self.is_due("write_text", path):
            await super().write_text(path, text[: len(text) // 2])
            self.meet(path)
        await super().write_text(path, text)

    async def rename(self, source: str, target: str) -> None:
        with self.counted("rename", target):
            await super().rename(source, target)

    def remove_file(self, path: str) -> None:
        with self.counted("remove_file", path):
            super().remove_file(path)

    def remove_directory(self, path: str) -> None:
        with self.counted("remove_directory", path):
            super().remove_directory(path)

    def sync_directory(self, path: str) -> None:
        with self.counted("sync_directory", path):
            super().sync_directory(path)

    def boot_id(self) -> bytes:
        return OsDisk().boot_id()  # of the machine, not of the store's disk

    def lock(self, path: str) -> DiskFile:
        with self.counted("lock", path):
            return super().lock(path)


class _FaultFile:
    __slots__ = ("_disk", "_file", "_path")

    def __init__(self, disk: FaultDisk, path: str, file: DiskFile) -> None:
        self._disk, self._path, self._file = disk, path, file

    def reserve(self, start: int, length: int) -> None:
        with self._disk.counted("reserve", self._path):
            self._file.reserve(start, length)

    def sync(self) -> None:
        with self._disk.counted("sync", self._path):
            self._file.sync()

    def verify(self, start: int, expected: memoryview) -> None:
        with self._disk.counted("verify", self._path):
            self._file.verify(start, expected)

    def close(self) -> None:
        self._file.close()
