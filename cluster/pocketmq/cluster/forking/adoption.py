"""A process may become the parent of its children's orphans for a moment (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator

_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


class Adoption:
    """Counts who needs it, over all threads of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depths: list[bool] = []
        """One for each block that runs now: whether it had been the process's own wish before."""

    @contextlib.contextmanager
    def during(self) -> Iterator[None]:
        """Orphans among this process's descendants become its children during the block.

        Raises:
            OSError: The system forbids it.
        """
        with self._lock:
            # What the first block found: later blocks would find what the first one has set.
            was = self._depths[0] if self._depths else _is_subreaper()
            _set_subreaper(True)
            self._depths.append(was)
        try:
            yield
        finally:
            with self._lock:
                was = self._depths.pop()
                # The last block that ends restores the flag, even if blocks of several threads
                # overlap.
                if not self._depths:
                    _set_subreaper(was)


ADOPTION = Adoption()
"""Of this process: the kernel keeps one flag for all its threads."""


def _is_subreaper() -> bool:
    found = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(found))
    return bool(found.value)


def _set_subreaper(wanted: bool) -> None:
    _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(wanted))


def _prctl(what: int, argument: object) -> None:
    # prctl reads unsigned longs; a plain int would leave half of a register undefined.
    zero = ctypes.c_ulong(0)
    if ctypes.CDLL(None, use_errno=True).prctl(what, argument, zero, zero, zero) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({what}) failed")
