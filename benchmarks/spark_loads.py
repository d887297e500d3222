"""Stores and timing for the benchmarks of the Spark sources."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyarrow.compute as pc

from pocketmq.broker.store import MessageStore, OsDisk, StoreConfig, StoredMessage
from pocketmq.pipeline.spark.store_source import StoreReader
from pocketmq.pipeline.stores.store_read import StoreSettings
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.profile import PROFILE_5_X

BODY = os.urandom(1024)
HEADERS = "queueOffset,storeTimestamp"
WITH_BODIES = HEADERS + ",body"

Figures = dict[str, Any]


def make_store(root: Path, messages: int) -> Path:
    """A store with one topic of 8 queues and bodies of 1 KiB."""
    config = StoreConfig(store_path_root_dir=str(root), message_index_enable=False)
    store = MessageStore(config, OsDisk(), SystemClock(), PROFILE_5_X.broker)
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


def median_s(
    rounds: int, *works: Callable[[], Any], clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Median seconds of each work, done in turn."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for index, work in enumerate(works):
            began = clock()
            work()
            taken[index].append(clock() - began)
    return [statistics.median(each) for each in taken]


def consume(frame: Any) -> None:
    """Have Spark compute every row and column, and discard them."""
    frame.write.format("noop").mode("overwrite").save()


def processor_s() -> float:
    """Of this process, the JVM and all Python workers, those that have ended too."""
    own = psutil.Process()
    spent = 0.0
    for process in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            spent += times.user + times.system + times.children_user + times.children_system
    return spent
