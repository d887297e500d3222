"""File descriptors: as many as the system allows, and some kept back for files.

A process that has none left can neither accept nor sync. Connections are refused before it comes to
that (`ACCEPTED`), and whoever opens files does it through a `DescriptorReserve`: many
connections can come in one turn of the loop, before the first of them can be refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from typing import Final

KEPT_FOR_FILES = 128
"""Descriptors that connections leave free."""

_MOST_WANTED = 1 << 20
_LEAST_CONNECTIONS = 16
_LEFT_NONE = (errno.EMFILE, errno.ENFILE)


def raise_soft_limit() -> int:
    """Have as many descriptors as this process may; how many it has now (`ulimit -n`)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_WANTED if hard == resource.RLIM_INFINITY else min(hard, _MOST_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # a system may have a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return limit()


def limit() -> int:
    """How many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_WANTED if soft == resource.RLIM_INFINITY else soft


def most_connections() -> int:
    """How many connections to accept, so that files can still be opened."""
    return max(_LEAST_CONNECTIONS, limit() - KEPT_FOR_FILES)


class AcceptedConnections:
    """Descriptors of the connections to this process's listeners, so that they leave some free."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, descriptors: int = 1) -> bool:
        """One more is accepted, which takes so many; False: it is to be refused."""
        if self.count + descriptors > most_connections():
            return False
        self.count += descriptors
        return True

    def give_back(self, descriptors: int = 1) -> None:
        """One that was accepted has ended."""
        self.count -= descriptors


class DescriptorReserve:
    """Opens files also when connections have taken every descriptor.

    Some spare ones are kept open; one is given up for each file that could not be opened, and taken
    back at the next that could. Safe to use from several threads.

    Args:
        count: of spare descriptors.
    """

    def __init__(self, count: int = 16) -> None:
        self._count = count
        self._spare: list[int] = []

    def open(self, path: str, flags: int, mode: int = 0o600) -> int:
        """`os.open`; also fits as the `opener` of a file object.

        Raises:
            OSError: as `os.open` does.
        """
        while True:
            try:
                descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
            except OSError as exc:
                if exc.errno not in _LEFT_NONE or not self._give_up_one():
                    raise
                continue
            self._refill()
            return descriptor

    def close(self) -> None:
        """Give all spare ones back."""
        while self._give_up_one():
            pass

    def _give_up_one(self) -> bool:
        # Try instead of counting first: another thread may take the last one.
        try:
            os.close(self._spare.pop())
        except IndexError:
            return False
        return True

    def _refill(self) -> None:
        while len(self._spare) < self._count:
            try:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return  # the next one that can be opened tries again


FOR_FILES: Final = DescriptorReserve()
ACCEPTED: Final = AcceptedConnections()
"""Both of this process, as its descriptors are, whatever roles it has."""
