"""A process beside the tests that ticks, and notes when for half a second it could not.

    python ticking.py FILE PID

FILE gets doubles: the moment of the last tick, then begin and end of each standstill, in seconds of
the monotonic clock, which all processes of a machine share. It ends when process PID, which must
have started it, has ended.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from pathlib import Path

TICK_S = 0.1
STANDSTILL_S = 0.5
_NUMBER, _PAIR = struct.Struct("d"), struct.Struct("dd")


def tick(file: int, parent: int) -> None:
    """Tick until the parent has ended."""
    end = _NUMBER.size
    last = time.monotonic()  # noqa: TID251 - what is measured is this machine
    while os.getppid() == parent:
        now = time.monotonic()  # noqa: TID251
        if now - last > STANDSTILL_S:
            # Before the tick: who waits for a tick finds all standstills up to it.
            end += os.pwrite(file, _PAIR.pack(last, now), end)
        os.pwrite(file, _NUMBER.pack(now), 0)
        last = now
        time.sleep(TICK_S)  # noqa: TID251


def noted(path: Path) -> tuple[float, list[tuple[float, float]]]:
    """The last tick, or 0, and the standstills until then."""
    data = path.read_bytes()
    if len(data) < _NUMBER.size:
        return 0.0, []
    pairs = data[_NUMBER.size :]
    whole = pairs[: len(pairs) - len(pairs) % _PAIR.size]
    return _NUMBER.unpack_from(data)[0], [*_PAIR.iter_unpack(whole)]


def note(path: Path, began: float, ended: float) -> None:
    """Put a standstill in, as the first; a test of this does."""
    file = os.open(path, os.O_WRONLY)
    os.pwrite(file, _PAIR.pack(began, ended), _NUMBER.size)
    os.close(file)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for pytest, which ends this process
    tick(os.open(sys.argv[1], os.O_WRONLY), int(sys.argv[2]))
