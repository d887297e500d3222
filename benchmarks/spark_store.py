"""A store through Spark: record batches against tuples, and stores of growing size."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import spark_loads
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from spark_loads import (
    HEADERS,
    WITH_BODIES,
    Figures,
    consume,
    log_bytes,
    make_store,
    median_s,
    reader_of,
)

from pocketmq.protocol.stored.record import decode_records

for module in (sys.modules[__name__], spark_loads):
    cloudpickle.register_pickle_by_value(module)  # Spark's workers do not find this folder


def store_rows(spark: Any, root: Path, rounds: int) -> Figures:
    """The store through Spark: record batches and tuples in turn."""
    size = log_bytes(root)
    spark.dataSource.register(TupleSource)

    def batches(columns: str) -> Callable[[], None]:
        frame = spark.read.format("pocketmq-store").option("columns", columns)
        return lambda: consume(frame.load(str(root)))

    def tuples(bodies: str) -> Callable[[], None]:
        frame = spark.read.format("tuples").option("bodies", bodies)
        return lambda: consume(frame.load(str(root)))

    works = batches(HEADERS), tuples("false"), batches(WITH_BODIES), tuples("true")
    for work in works:
        work()  # warm
    heads_s, head_tuples_s, bodies_s, body_tuples_s = median_s(rounds, *works)
    return {
        "GB/s header columns": size / heads_s / 1e9,
        "GB/s with bodies": size / bodies_s / 1e9,
        "GB/s tuples, header columns": size / head_tuples_s / 1e9,
        "GB/s tuples, with bodies": size / body_tuples_s / 1e9,
        "ratio to tuples, header columns (2)": head_tuples_s / heads_s,
        "ratio to tuples, with bodies (1.3)": body_tuples_s / bodies_s,
    }


def growth_rows(spark: Any, folder: Path, sizes_mb: list[int], rounds: int) -> Figures:
    """Seconds, and most memory of JVM and Python workers, for stores of growing size."""
    figures: Figures = {}
    for size in sizes_mb:
        root = make_store(folder / f"grow-{size}", int(size * 1e6 / 1200) // 1000 * 1000)
        frame = spark.read.format("pocketmq-store").option("columns", WITH_BODIES).load(str(root))
        consume(frame)
        with Watch() as watch:
            (seconds,) = median_s(rounds, lambda frame=frame: consume(frame))
        shutil.rmtree(root)
        figures[f"{size} MB: seconds"] = seconds
        figures[f"{size} MB: MB/s"] = size / seconds
        figures[f"{size} MB: JVM, own MiB"] = watch.jvm_mib
        figures[f"{size} MB: largest Python worker, own MiB"] = watch.worker_mib
    return figures


class Watch:
    """Peak memory of this process's JVM and Python workers, polled ten times a second."""

    def __enter__(self) -> Watch:
        self.jvm_mib = self.worker_mib = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.1):
            for process in psutil.Process().children(recursive=True):
                try:
                    own_mib = process.memory_full_info().uss / (1 << 20)
                    is_jvm = "java" in process.name()
                except psutil.Error:
                    continue
                if is_jvm:
                    self.jvm_mib = max(self.jvm_mib, own_mib)
                else:
                    self.worker_mib = max(self.worker_mib, own_mib)


class TupleSource(DataSource):
    """The same log with a Python tuple per record, as a reader without Arrow yields it."""

    @classmethod
    def name(cls) -> str:
        return "tuples"

    def schema(self) -> str:
        return "queueOffset bigint, storeTimestamp timestamp" + (
            ", body binary" if self.options.get("bodies") == "true" else ""
        )

    def reader(self, schema: Any) -> DataSourceReader:
        return TupleReader(self.options["path"], self.options.get("bodies") == "true")


class TupleReader(DataSourceReader):
    def __init__(self, path: str, bodies: bool) -> None:
        self.path = path
        self.bodies = bodies

    def partitions(self) -> list[InputPartition]:
        parts = reader_of(Path(self.path), HEADERS).partitions()
        return [InputPartition(part.value) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from datetime import UTC, datetime

        from pocketmq.pipeline.stores.store_files import QueueFiles, log_files

        part = partition.value
        with log_files(part.root) as log:
            for each in part.slices:
                files = QueueFiles(part.root, each.topic, each.queue_id)
                entries = files.entries(each.low, each.high)
                for offset, size in zip(
                    entries["offset"].tolist(), entries["size"].tolist(), strict=True
                ):
                    (message,) = decode_records(log.read(offset, size))
                    moment = datetime.fromtimestamp(message.store_timestamp_ms / 1000, UTC)
                    row = (message.queue_offset, moment)
                    yield (*row, message.body) if self.bodies else row
