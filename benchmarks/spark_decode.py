"""A store's log in one process, without Spark: ours, a Python loop, numpy.sum over the pages."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from spark_loads import WITH_BODIES, Figures, log_bytes, median_s, reader_of

from pocketmq.pipeline.columns.record_columns import ROWS, binary_views, read_columns
from pocketmq.protocol.store_layout import MAGIC_V1


def decode_rows(root: Path, rounds: int) -> Figures:
    """One process, no Spark: offsets, times and bodies of every record."""
    size = log_bytes(root)
    files = sorted((root / "commitlog").iterdir())
    reader = reader_of(root, WITH_BODIES)
    parts = reader.partitions()

    def ours() -> None:
        for part in parts:
            for _ in reader.read(part):
                pass

    def views() -> None:
        for file in files:
            data, positions = mapped(file)
            for low in range(0, len(positions), ROWS):
                records = read_columns(data, positions[low : low + ROWS])
                records.head["queue_offset"].astype(np.int64)
                records.head["store_timestamp"].astype(np.int64)
                binary_views(data, records.body_at, records.body_len)

    def walk() -> None:
        for file in files:
            with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ) as m:
                python_walk(memoryview(m))

    def sums() -> None:
        for file in files:
            with file.open("rb") as opened:
                m = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
                np.frombuffer(m, np.uint64).sum()

    ours_s, views_s, walk_s, sum_s = median_s(rounds, ours, views, walk, sums)
    pages = sum(file.stat().st_size for file in files)
    return {
        "GB/s ours, bodies copied": size / ours_s / 1e9,
        "GB/s ours, bodies as views": size / views_s / 1e9,
        "GB/s Python walk": size / walk_s / 1e9,
        "GB/s numpy.sum of the pages": pages / sum_s / 1e9,
        "ratio to the walk (5)": walk_s / ours_s,
        "ratio to numpy.sum, bodies copied (0.3)": size / ours_s / (pages / sum_s),
        "ratio to numpy.sum, bodies as views (0.3)": size / views_s / (pages / sum_s),
    }


_POSITIONS: dict[Path, Any] = {}


def mapped(file: Path) -> tuple[Any, Any]:
    """A new mapping of a file, and where its records begin, looked up once.

    Reading this from the queues is part of the other row.
    """
    with file.open("rb") as opened:
        data = np.frombuffer(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
    if file not in _POSITIONS:
        positions = []
        view, at = data.data, 0
        while at + 91 <= len(view):
            length, magic = struct.unpack_from(">ii", view, at)
            if length < 91 or magic != MAGIC_V1:
                break
            positions.append(at)
            at += length
        _POSITIONS[file] = np.array(positions, np.int64)
    return data, _POSITIONS[file]


def python_walk(view: memoryview) -> pa.RecordBatch:
    """A plain loop over a log."""
    offsets, times, bodies = [], [], []
    at, unpack = 0, struct.Struct(">i").unpack_from
    longs = struct.Struct(">q").unpack_from
    while at + 91 <= len(view):
        (size,) = unpack(view, at)
        if size < 91 or unpack(view, at + 4)[0] != MAGIC_V1:
            break
        (length,) = unpack(view, at + 84)
        offsets.append(longs(view, at + 20)[0])
        times.append(longs(view, at + 56)[0])
        bodies.append(bytes(view[at + 88 : at + 88 + length]))
        at += size
    columns = [pa.array(offsets), pa.array(times), pa.array(bodies, pa.large_binary())]
    return pa.RecordBatch.from_arrays(columns, names=["offset", "time", "body"])
