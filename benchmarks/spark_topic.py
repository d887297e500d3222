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
from spark_loads import BODY, HEADERS, WITH_BODIES, Figures, consume

from pocketmq.client import Admin, Message, Producer
from pocketmq.runtime import logs


def topic_rows(spark: Any, folder: Path, messages: int, rounds: int) -> Figures:
    """A topic from one broker, and rows into it, against our own clients."""
    with cluster(folder / "broker", 1) as (nameserver, (broker,)):
        for topic in ("bench", "sink", "batches"):
            asyncio.run(create_topic(nameserver, topic))
        fill(nameserver, messages)
        reader = spark.read.format("pocketmq").options(nameServer=nameserver, topic="bench")

        def through_spark(columns: str) -> Callable[[], None]:
            return lambda: consume(reader.option("columns", columns).load())

        taken: dict[str, list[float]] = {}
        for columns in (HEADERS, WITH_BODIES):
            through_spark(columns)()
        for _ in range(rounds):
            result = run_json(
                "client_load.py", "pull", "--address", broker.address,
                "--messages", str(messages), timeout_s=900,
            )  # fmt: skip
            taken.setdefault("bare", []).append(result["messages"] / result["seconds"])
            taken.setdefault("bare us", []).append(1e6 * result["cpu_s"] / result["messages"])
            result = run_json("spark_topic.py", nameserver, timeout_s=900)
            taken.setdefault("arrow us", []).append(1e6 * result["cpu_s"] / result["messages"])
            taken.setdefault("arrow", []).append(result["messages"] / result["seconds"])
            for name, columns in (("header columns", HEADERS), ("with bodies", WITH_BODIES)):
                began = time.perf_counter()
                through_spark(columns)()
                taken.setdefault(name, []).append(messages / (time.perf_counter() - began))

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
        "msg/s bare client": rates["bare"],
        "msg/s topic, header columns": rates["header columns"],
        "msg/s topic, with bodies": rates["with bodies"],
        "ratio to the bare client, header columns (1.2)": rates["header columns"] / rates["bare"],
        "ratio to the bare client, with bodies (1.2)": rates["with bodies"] / rates["bare"],
        "msg/s read_topic with bodies, without Spark": rates["arrow"],
        "ratio of that to the bare client (1.2)": rates["arrow"] / rates["bare"],
        "processor us of a message, bare client": rates["bare us"],
        "processor us of a message, read_topic with bodies": rates["arrow us"],
        "ratio of processor time, bare client to read_topic": rates["bare us"] / rates["arrow us"],
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
