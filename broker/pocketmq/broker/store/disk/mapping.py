"""Mappings of files: shared ones to write through, and ones to read that allocate nothing.

On tmpfs a page that is only looked at through a mapping is allocated, and when the file system is
full that is a SIGBUS. `map_readable` maps what a file has there, and plain zeros where it has
holes.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import weakref
from collections.abc import Iterator

from pocketmq.broker.store.config import MIB

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_MAP_FAILED = ctypes.c_void_p(-1).value


_SMALL_FILE = 16 * MIB
"""Files up to this length are read and written in few places: a page at a time."""

_array_types: dict[int, type[ctypes.Array[ctypes.c_ubyte]]] = {}


def map_shared(descriptor: int, size: int) -> memoryview:
    """Map a file without keeping its descriptor.

    Python's own `mmap` keeps a duplicate of it for as long as the mapping lives (an option only
    since 3.13), and 10,000 consume queues would need 10,000 of them.
    """
    address = _mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
    if size <= _SMALL_FILE:
        # A machine may read 8 MiB ahead: then the first entry in each of 10,000 consume queues
        # would bring 6 MB of zeros into the page cache, 2 ms each. Advice only: it may be ignored.
        _libc.madvise(address, size, mmap.MADV_RANDOM)
    return _view_of(address, size)


def _view_of(address: int, size: int) -> memoryview:
    array_type = _array_types.get(size)
    if array_type is None:
        array_type = _array_types[size] = ctypes.c_ubyte * size
    # `from_address` keeps nothing alive, so the finalizer below ends the mapping.
    owner = array_type.from_address(address)
    # All views and slices hold `owner`, which dies with the last reader.
    unmap = weakref.finalize(owner, _libc.munmap, address, size)
    unmap.atexit = False  # at exit the kernel unmaps; we must not, under a thread that still reads
    return memoryview(owner).cast("B")


def map_readable(descriptor: int, size: int) -> memoryview:
    """Map a file to be read; writable only where reading allocates nothing anyway."""
    # `map_shared` also reports empty files, which cannot be mapped.
    if size == 0 or not _allocates_when_read(os.fstat(descriptor).st_dev):
        return map_shared(descriptor, size)
    return _map_data(descriptor, size)


def map_read_only(descriptor: int, size: int) -> memoryview:
    """Map a file that was opened for reading; nothing can be written or allocated through it."""
    if size and _allocates_when_read(os.fstat(descriptor).st_dev):
        return _map_data(descriptor, size)
    address = _mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    return _view_of(address, size).toreadonly()


def _map_data(descriptor: int, size: int) -> memoryview:
    # Zeros first, which take no memory as long as they are only read; then the file's data on top.
    address = _mmap(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
    view = _view_of(address, size)
    # MAP_FIXED replaces the zeros with the file's pages.
    for start, end in _data_ranges(descriptor, size):
        flags = mmap.MAP_SHARED | _MAP_FIXED
        _mmap(address + start, end - start, mmap.PROT_READ, flags, descriptor, start)
    return view.toreadonly()


def advise_small_writes(view: memoryview, start: int) -> None:
    """From `start` on a shared mapping will be written in small pieces, each synced."""
    # Pages that were read ahead together are written back together: a sync of one message
    # then writes 2 MiB. What lies before `start` is read, and reading ahead is good for that.
    if len(view) <= _SMALL_FILE:
        return
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(view))
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    if first:
        _libc.madvise(address, first, mmap.MADV_NORMAL)
    _libc.madvise(address + first, len(view) - first, mmap.MADV_RANDOM)


_MAP_FIXED = 0x10
_ALLOCATE_WHEN_READ = frozenset({"tmpfs"})
_MOUNTS = "/proc/self/mountinfo"
_MOST_RANGES = 64
"""Each takes an entry of the kernel's table of mappings; what lies behind is mapped as a whole."""

_known_devices: dict[int, bool] = {}


def _allocates_when_read(device: int) -> bool:
    """Whether a file system is one of those; asked of the system once for each."""
    known = _known_devices.get(device)
    if known is None:
        kind, options = _mount_of(f"{os.major(device)}:{os.minor(device)}")
        known = kind in _ALLOCATE_WHEN_READ or (kind == "overlay" and _is_over_one(options))
        _known_devices[device] = known
    return known


def _is_over_one(options: str) -> bool:
    """Whether what is written through an overlay comes to such a file system.

    In a container the folder below is somewhere outside; then it may be one.
    """
    # mountinfo lists options as `key=value,flag,...`.
    named = dict(each.partition("=")[::2] for each in options.split(","))
    try:
        return _allocates_when_read(os.stat(named["upperdir"]).st_dev)
    except (KeyError, OSError):
        # If unknown, assume yes: that costs a few calls, while a wrong no could raise SIGBUS.
        return True


def _mount_of(device: str) -> tuple[str, str]:
    """Type and options of a file system."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as mounts:
            for line in mounts:
                fields = line.split()
                # Field 2 is the device; type and options follow a lone "-", whose place varies.
                if fields[2] == device:
                    at = fields.index("-")
                    return fields[at + 1], fields[at + 3]
    except OSError:
        pass  # no Linux: no tmpfs of its kind either
    return "", ""


def _data_ranges(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Stretches of whole pages that hold data; everything between them is a hole."""
    at = 0
    for number in range(_MOST_RANGES):
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as exc:
            # ENXIO means that no more data follows.
            if exc.errno == errno.ENXIO:
                return
            raise
        if start >= size:
            return
        is_last = number == _MOST_RANGES - 1
        # Map everything after many stretches as one; reading its holes may allocate them.
        end = size if is_last else min(size, os.lseek(descriptor, start, os.SEEK_HOLE))
        yield start // mmap.PAGESIZE * mmap.PAGESIZE, end
        at = end
        if at >= size:
            return


def _mmap(
    address: int | None, size: int, protection: int, flags: int, descriptor: int, offset: int
) -> int:
    mapped = _libc.mmap(address, size, protection, flags, descriptor, offset)
    if mapped is None or mapped == _MAP_FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(mapped)
