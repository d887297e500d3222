"""`make bench-spark`: the pipeline beside what it is measured against, in turn, medians of one run.

    decode      a store's log in one process, without Spark: ours, a Python walk, and numpy.sum
                over the same pages
    store       the same through Spark on 2 cores: record batches against tuples
    topic       a topic read through Spark against our bare client, from the same broker
    sink        rows written through Spark against our producer with batches
    growth      100 MB to 4 GB: does time grow linearly, and does memory stay?

Ratios count; the machine is noisy, so an absolute figure of one run means little.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import mmap
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
from processes import HERE, cluster, run_json
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from rich.console import Console
from rich.table import Table

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig, StoredMessage
from pocketmq.client import Admin, Message, Producer
from pocketmq.pipeline import session
from pocketmq.pipeline.record_columns import ROWS, binary_views, read_columns
from pocketmq.pipeline.store_source import StoreReader, StoreSettings
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.record import MAGIC_V1, decode_records
from pocketmq.protocol.subscription import tags_code
from pocketmq.runtime import logs
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.profile import PROFILE_5_X

GIB = 1 << 30
BODY = os.urandom(1024)
HEADERS = "queueOffset,storeTimestamp"
WITH_BODIES = HEADERS + ",body"
CONSOLE = Console(width=110)
RESULTS = HERE / "results" / "spark.json"

Figures = dict[str, Any]


# -- what is measured on ------------------------------------------------------------------------


def make_store(root: Path, messages: int) -> Path:
    """A store with one topic of 8 queues and bodies of 1 KiB."""
    config = StoreConfig(store_path_root_dir=str(root), message_index_enable=False)
    store = MessageStore(config, OsDisk(), SystemClock(), PROFILE_5_X)
    store.load()
    host = pack_host("127.0.0.1", 10911)
    code = tags_code("TagA")
    properties = "UNIQ_KEY\x01{}\x02TAGS\x01TagA\x02KEYS\x01key-1234\x02WAIT\x01true\x02"
    text = properties.format("7F0000010000000000000000ABCDEF01").encode()
    batch = [
        StoredMessage(
            topic="Bench",
            queue_id=number % 8,
            body=BODY,
            properties=text,
            flag=0,
            sys_flag=0,
            born_timestamp_ms=1_700_000_000_000,
            born_host=host,
            store_host=host,
            tags_code=code,
        )
        for number in range(1000)
    ]
    for _ in range(messages // len(batch)):
        store.put_messages(batch)
    store.close_files()
    return root


def log_bytes(root: Path) -> int:
    """Bytes of records in a store's log."""
    settings = StoreSettings({"path": str(root), "table": "consumequeue", "columns": "size"})
    reader = StoreReader(settings, settings.columns)
    return sum(
        pc.sum(batch.column("size")).as_py()
        for part in reader.partitions()
        for batch in reader.read(part)
    )


def reader_of(root: Path, columns: str) -> StoreReader:
    settings = StoreSettings({"path": str(root), "columns": columns})
    return StoreReader(settings, settings.columns)


def median_s(rounds: int, *works: Callable[[], Any]) -> list[float]:
    """Median seconds of each work, done in turn."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for index, work in enumerate(works):
            began = time.perf_counter()
            work()
            taken[index].append(time.perf_counter() - began)
    return [statistics.median(each) for each in taken]


# -- decode -------------------------------------------------------------------------------------


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
    """A new mapping of a file, and where its records begin, which is found once.

    The queues know it; finding it is a part of the other row.
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
    """The obvious loop over a log."""
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


# -- through Spark ------------------------------------------------------------------------------


class TupleSource(DataSource):
    """The same log, one Python tuple a record: what a reader without Arrow yields."""

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
        parts = reader_of_text(self.path).partitions()
        return [InputPartition(part.value) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        from datetime import UTC, datetime
        from pathlib import Path as P

        from pocketmq.pipeline.store_files import FileRow, QueueFiles

        part = partition.value
        with FileRow(P(part.root, "commitlog")) as log:
            for each in part.slices:
                files = QueueFiles(P(part.root), each.topic, each.queue_id)
                entries = files.entries(each.low, each.high)
                for offset, size in zip(
                    entries["offset"].tolist(), entries["size"].tolist(), strict=True
                ):
                    (message,) = decode_records(log.read(offset, size))
                    moment = datetime.fromtimestamp(message.store_timestamp_ms / 1000, UTC)
                    row = (message.queue_offset, moment)
                    yield (*row, message.body) if self.bodies else row


def reader_of_text(path: str) -> StoreReader:
    return reader_of(Path(path), HEADERS)


def consume(frame: Any) -> None:
    """Have Spark make every row and column, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


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


def topic_rows(spark: Any, folder: Path, messages: int, rounds: int) -> Figures:
    """A topic from one broker, and rows into it, against our own clients."""
    with cluster(folder / "broker", 1) as (nameserver, (broker,)):
        for topic in ("bench", "sink", "batches"):
            asyncio.run(create_topic(nameserver, topic))
        fill(nameserver, messages)
        reader = spark.read.format("pocketmq").options(nameServer=nameserver, topic="bench")

        def read(columns: str) -> Callable[[], None]:
            return lambda: consume(reader.option("columns", columns).load())

        taken: dict[str, list[float]] = {}
        for columns in (HEADERS, WITH_BODIES):
            read(columns)()
        for _ in range(rounds):
            result = run_json(
                "client_load.py", "pull", "--address", broker.address,
                "--messages", str(messages), timeout_s=900,
            )  # fmt: skip
            taken.setdefault("bare", []).append(result["messages"] / result["seconds"])
            for name, columns in (("header columns", HEADERS), ("with bodies", WITH_BODIES)):
                began = time.perf_counter()
                read(columns)()
                taken.setdefault(name, []).append(messages / (time.perf_counter() - began))

        rows = min(messages // 4, 200_000)
        frame = spark.range(rows, numPartitions=4).selectExpr(
            f"repeat('x', {len(BODY)}) as body", "'TagA' as tags"
        )
        frame.write.format("pocketmq").options(nameServer=nameserver, topic="sink").mode(
            "append"
        ).save()
        for _ in range(rounds):
            result = produced(nameserver, rows)
            taken.setdefault("producer", []).append(result["messages"] / result["seconds"])
            began = time.perf_counter()
            frame.write.format("pocketmq").options(nameServer=nameserver, topic="sink").mode(
                "append"
            ).save()
            taken.setdefault("sink", []).append(rows / (time.perf_counter() - began))
    rates = {name: statistics.median(each) for name, each in taken.items()}
    return {
        "messages": messages,
        "msg/s bare client": rates["bare"],
        "msg/s topic, header columns": rates["header columns"],
        "msg/s topic, with bodies": rates["with bodies"],
        "ratio to the bare client, header columns (0.4)": rates["header columns"] / rates["bare"],
        "ratio to the bare client, with bodies (0.4)": rates["with bodies"] / rates["bare"],
        "messages of the sink": rows,
        "msg/s producer with batches": rates["producer"],
        "msg/s sink": rates["sink"],
        "ratio of the sink to the producer (0.4)": rates["sink"] / rates["producer"],
    }


async def create_topic(nameserver: str, topic: str) -> None:
    async with Admin(nameservers=nameserver) as admin:
        await admin.create_topic(topic, queues=4)


def fill(nameserver: str, messages: int) -> None:
    """Put messages into the topic, by the sink's sender without Spark."""
    from pyspark.sql.types import StructType

    from pocketmq.pipeline.sink import WriteSettings, send_rows

    schema = StructType.fromDDL("body binary, tags string")
    settings = WriteSettings({"nameServer": nameserver, "topic": "bench"}, schema)
    columns = [pa.array([BODY] * 10_000), pa.array(["TagA"] * 10_000)]
    batch = pa.RecordBatch.from_arrays(columns, names=["body", "tags"])
    send_rows(settings, (batch for _ in range(messages // 10_000)), "fill", 0, 0)


def produced(nameserver: str, messages: int) -> Figures:
    """Our producer with batches, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--producer", nameserver, "--messages", str(messages)],
        capture_output=True,
        text=True,
        check=True,
    )
    found: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    return found


async def produce(nameserver: str, messages: int) -> Figures:
    """Batches of 256, eight under way."""
    async with Producer("bench-batches", nameservers=nameserver) as producer:
        left = messages // 256

        async def work() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                batch = [Message("batches", BODY, tags="TagA") for _ in range(256)]
                await producer.send_batch(batch)

        await producer.send(Message("batches", BODY))
        began = time.perf_counter()
        await asyncio.gather(*[work() for _ in range(8)])
        return {"messages": messages // 256 * 256, "seconds": time.perf_counter() - began}


# -- growth -------------------------------------------------------------------------------------


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
    """Most memory of this process's JVM and of its Python workers, looked at ten times a second."""

    def __enter__(self) -> Watch:
        import threading

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


# -- the run ------------------------------------------------------------------------------------


def report(section: str, title: str, figures: Figures) -> None:
    """Print a section, and put it into the file beside those of earlier runs."""
    RESULTS.parent.mkdir(exist_ok=True)
    saved = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    load = os.getloadavg()[1]
    saved[section] = {**figures, "load average": load}
    RESULTS.write_text(json.dumps(saved, indent=2) + "\n")
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("figure", justify="right")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
    CONSOLE.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="decode,store,topic,growth")
    parser.add_argument("--messages", type=int, default=2_000_000, help="of the topic")
    parser.add_argument("--store-messages", type=int, default=1_000_000)
    parser.add_argument("--sizes", default="100,500,1000,2000,4000", help="MB of the growth rows")
    parser.add_argument("--producer", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logs.configure("error")
    if options.producer:
        print(json.dumps(asyncio.run(produce(options.producer, options.messages))))
        return 0
    only = options.only.split(",")
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder = Path(name)
        root = folder / "store"
        if {"decode", "store"} & set(only):
            make_store(root, options.store_messages)
        if "decode" in only:
            title = "Store in one process, without Spark, 1 KiB bodies"
            report("decode", title, decode_rows(root, options.rounds))
        if set(only) - {"decode"}:
            spark = session("bench", master="local[2]", settings={"spark.driver.memory": "2g"})
            if "store" in only:
                figures = store_rows(spark, root, options.rounds)
                report("store", "Store through Spark on 2 cores", figures)
            if "topic" in only:
                figures = topic_rows(spark, folder, options.messages, options.rounds)
                report("topic", "Topic and sink through Spark, one broker", figures)
            if "growth" in only:
                sizes = [int(each) for each in options.sizes.split(",")]
                report("growth", "Growth", growth_rows(spark, folder, sizes, options.rounds))
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
