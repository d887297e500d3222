"""A topic read through Spark, and rows written into one, against our own clients.

python spark_topic.py NAMESERVER MESSAGES      our producer with batches; prints one JSON line
python spark_topic.py NAMESERVER               the topic as Arrow batches, without Spark; the same
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from processes import cluster, run_json
from spark_loads import BODY, HEADERS, WITH_BODIES, Figures, consume, processor_s

from pocketmq.client import Admin, Message, Producer
from pocketmq.runtime import logs

TAKEN = {"nothing": "", "the same": "queue_offset,store_timestamp_ms,body"}
"""What the plain client takes of each message. It decodes lazily, so a loop which takes nothing
never makes the bodies that `read_topic` and Spark hand out."""


def topic_rows(spark: Any, folder: Path, messages: int, rounds: int) -> Figures:
    """A topic from one broker, and rows into it, against our own clients."""
    with cluster(folder / "broker", 1) as (nameserver, (broker,)):
        for topic in ("bench", "sink", "batches"):
            asyncio.run(create_topic(nameserver, topic))
        fill(nameserver, messages)

        def through_spark(columns: str) -> Callable[[], None]:
            return lambda: consume(reader_of(spark, nameserver).option("columns", columns).load())

        taken: dict[str, list[float]] = {}
        ends = {"bench": {"broker-0": {str(queue): 1 for queue in range(4)}}}
        first = reader_of(spark, nameserver).option("endingOffsets", json.dumps(ends))
        for columns in (HEADERS, WITH_BODIES):
            through_spark(columns)()
        for _ in range(rounds):
            for name, attributes in TAKEN.items():
                result = run_json(
                    "client_load.py", "pull", "--address", broker.address,
                    "--messages", str(messages), "--take", attributes, timeout_s=900,
                )  # fmt: skip
                taken.setdefault(name, []).append(result["messages"] / result["seconds"])
                used_us = 1e6 * result["cpu_s"] / result["messages"]
                taken.setdefault(f"{name} us", []).append(used_us)
            result = run_json("spark_topic.py", nameserver, timeout_s=900)
            taken.setdefault("arrow us", []).append(1e6 * result["cpu_s"] / result["messages"])
            taken.setdefault("arrow", []).append(result["messages"] / result["seconds"])
            began = time.perf_counter()
            consume(first.load())
            start_s = time.perf_counter() - began
            taken.setdefault("start", []).append(start_s)
            for name, columns in (("header columns", HEADERS), ("with bodies", WITH_BODIES)):
                began, used_s = time.perf_counter(), processor_s()
                through_spark(columns)()
                seconds, used_s = time.perf_counter() - began, processor_s() - used_s
                taken.setdefault(name, []).append(messages / seconds)
                taken.setdefault(f"{name}, started", []).append(messages / (seconds - start_s))
                taken.setdefault(f"{name} us", []).append(1e6 * used_s / messages)

        rows = min(messages // 4, 200_000)
        frame = spark.range(rows, numPartitions=4).selectExpr(
            f"repeat('x', {len(BODY)}) as body", "'TagA' as tags"
        )
        frame.write.format("pocketmq").options(nameServer=nameserver, topic="sink").mode(
            "append"
        ).save()
        for _ in range(rounds):
            result = run_json("spark_topic.py", nameserver, str(rows), timeout_s=900)
            taken.setdefault("producer", []).append(result["messages"] / result["seconds"])
            began = time.perf_counter()
            frame.write.format("pocketmq").options(nameServer=nameserver, topic="sink").mode(
                "append"
            ).save()
            taken.setdefault("sink", []).append(rows / (time.perf_counter() - began))
    rates = {name: statistics.median(each) for name, each in taken.items()}
    return {
        "messages": messages,
        "msg/s plain client that takes nothing of a message": rates["nothing"],
        "msg/s plain client that takes offset, time and body": rates["the same"],
        "msg/s topic, header columns": rates["header columns"],
        "msg/s topic, with bodies": rates["with bodies"],
        "s that Spark takes for a job of four messages": rates["start"],
        "ratio to the plain client, header columns": rates["header columns"] / rates["nothing"],
        "ratio to the plain client, with bodies": rates["with bodies"] / rates["the same"],
        "the same without Spark's start": rates["with bodies, started"] / rates["the same"],
        "processor us of a message through Spark, with bodies": rates["with bodies us"],
        "msg/s read_topic with bodies, without Spark": rates["arrow"],
        "ratio of that to the plain client": rates["arrow"] / rates["the same"],
        "processor us of a message, plain client, nothing taken": rates["nothing us"],
        "processor us of a message, plain client, the same taken": rates["the same us"],
        "processor us of a message, read_topic with bodies": rates["arrow us"],
        "ratio of processor time to read_topic, nothing taken": rates["nothing us"]
        / rates["arrow us"],
        "ratio of processor time to read_topic, the same taken (1.2)": rates["the same us"]
        / rates["arrow us"],
        "messages of the sink": rows,
        "msg/s producer with batches": rates["producer"],
        "msg/s sink": rates["sink"],
        "ratio of the sink to the producer (0.4)": rates["sink"] / rates["producer"],
    }


def reader_of(spark: Any, nameserver: str) -> Any:
    """Reads the topic."""
    return spark.read.format("pocketmq").options(nameServer=nameserver, topic="bench")


async def create_topic(nameserver: str, topic: str) -> None:
    async with Admin(nameservers=nameserver) as admin:
        await admin.create_topic(topic, queues=4)


def fill(nameserver: str, messages: int) -> None:
    """Put messages into the topic, by the sink's sender without Spark."""
    from pyspark.sql.types import StructType

    from pocketmq.pipeline.spark.sink import WriteSettings, send_rows

    schema = StructType.fromDDL("body binary, tags string")
    settings = WriteSettings({"nameServer": nameserver, "topic": "bench"}, schema)
    columns = [pa.array([BODY] * 10_000), pa.array(["TagA"] * 10_000)]
    batch = pa.RecordBatch.from_arrays(columns, names=["body", "tags"])
    send_rows(settings, (batch for _ in range(messages // 10_000)), "fill", 0, 0)


def read(nameserver: str) -> Figures:
    """Every message with its body, decoded; no Spark."""
    from pocketmq.pipeline import read_topic

    options = {"nameServer": nameserver, "columns": WITH_BODIES}
    read_topic("bench", **options).read_next_batch()  # imports, connections
    messages = 0
    began, used_s = time.perf_counter(), time.process_time()
    for batch in read_topic("bench", **options):
        messages += len(batch)
    seconds, used_s = time.perf_counter() - began, time.process_time() - used_s
    return {"messages": messages, "seconds": seconds, "cpu_s": used_s}


async def produce(nameserver: str, messages: int) -> Figures:
    """Send batches of 256, eight at a time."""
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


if __name__ == "__main__":
    logs.configure("error")
    if len(sys.argv) > 2:
        print(json.dumps(asyncio.run(produce(sys.argv[1], int(sys.argv[2])))))
    else:
        print(json.dumps(read(sys.argv[1])))
