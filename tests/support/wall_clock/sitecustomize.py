"""Sets a Python process's wall clock off by what a file says: for brokers under clock jumps.

First on PYTHONPATH of the process; `WALL_CLOCK_FILE` names a file of 8 bytes, a signed number of
milliseconds, which may change at any moment. The monotonic clock is left alone.
"""

import mmap
import os
import struct
import time

_path = os.environ.get("WALL_CLOCK_FILE")
if _path:
    with open(_path, "rb") as _file:
        _offset = mmap.mmap(_file.fileno(), 8, access=mmap.ACCESS_READ)
    _read = struct.Struct("<q").unpack_from
    _time, _time_ns = time.time, time.time_ns  # noqa: TID251 - these are what is replaced
    time.time = lambda: _time() + _read(_offset)[0] / 1000  # noqa: TID251
    time.time_ns = lambda: _time_ns() + _read(_offset)[0] * 1_000_000  # noqa: TID251
