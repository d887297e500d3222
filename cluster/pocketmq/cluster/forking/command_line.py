"""What `ps` shows of a forked process, as if it had been executed."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from pathlib import Path

ROOM = "-" * 3000
"""An argument of the fork server that makes room for the command lines of roles."""

_START, _END = 45, 46
"""Of `arg_start` and `arg_end` among the fields of /proc/PID/stat after the name (proc(5))."""


def show_command_line(words: Sequence[str]) -> None:
    """Let this process's command line read so. Where that cannot be done, it stays as it is."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        # After the last parenthesis, as a process's name may contain parentheses.
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[_START]), int(fields[_END])
        room = end - start
        if start <= 0 or room < 2:
            return
        # Cut to the room there is, as the environment follows in memory.
        text = " ".join(words).encode("utf-8", "surrogateescape")[: room - 2]
        # The last byte is not 0: then Linux shows the text up to the first 0, as setproctitle(3).
        ctypes.memmove(start, text + bytes(room - len(text) - 1) + b".", room)
