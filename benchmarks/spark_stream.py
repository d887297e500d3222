"""How long a message takes from its send to the sink, through a stream of micro-batches.

    producer --RATE msg/s--> topic `sent` --readStream--> --writeStream--> topic `arrived`

A body begins with the millisecond of its send; the sink's broker says when it stored the row. So
the time includes the send, the wait for the next batch, Spark's planning, the tasks and the sink.

python spark_stream.py NAMESERVER RATE SECONDS      the producer; prints one JSON line
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from processes import cluster, run_json
from spark_loads import BODY, Figures
from spark_topic import create_topic

from pocketmq.client import Message, Producer
from pocketmq.pipeline import read_topic
from pocketmq.runtime import logs

TICK_S = 0.01
"""A batch of messages is sent so often."""
WARM_S = 20
"""The same load before the one that counts: Spark starts its workers then, and Java compiles what
runs often. Its figures are told too."""
SHARED = {"minRecordsPerPartition": "1000"}
"""Queues share tasks, as docs/spark-read.md advises for small batches."""
STAMP = len("1700000000000")
PHASES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


def stream_rows(spark: Any, folder: Path, rate: int, seconds: int) -> Figures:
    """Latencies of a stream under a steady load, and where its batches spend their time."""
    with cluster(folder / "stream", 1) as (nameserver, (broker,)):
        for topic in ("sent", "arrived"):
            asyncio.run(create_topic(nameserver, topic))
        options = {"nameServer": nameserver}
        query = (
            spark.readStream.format("pocketmq")
            .options(**options, **SHARED, topic="sent", columns="body")
            .option("startingOffsets", "earliest")
            .load()
            .writeStream.format("pocketmq")
            .options(**options, topic="arrived", checkpointLocation=str(folder / "checkpoint"))
            .start()
        )

        def load(lasts_s: int) -> Figures:
            arguments = (nameserver, str(rate), str(lasts_s))
            result = run_json("spark_stream.py", *arguments, timeout_s=10 * lasts_s + 60)
            query.processAllAvailable()
            return result

        load(WARM_S)
        begins_ms = time.time_ns() // 1_000_000
        seen, began_s = query.lastProgress.batchId, broker.cpu_s
        done = load(seconds)
        batches = [json.loads(each.json) for each in query.recentProgress if each.batchId > seen]
        query.stop()
        table = read_topic("arrived", columns="body,storeTimestamp", **options).read_all()
        broker_s = broker.cpu_s - began_s
    arrived = table.column("storeTimestamp").cast("int64").to_numpy() // 1000
    sent = np.array([int(each[:STAMP]) for each in table.column("body").to_pylist()])
    all_took = arrived - sent
    took, cold = all_took[sent >= begins_ms], all_took[sent < begins_ms]
    full = [each["durationMs"] for each in batches if each["numInputRows"]]
    return {
        "messages sent": done["messages"],
        "msg/s sent": done["messages"] / done["seconds"],
        "messages at the sink": len(took),
        "send to sink, p50 ms (300)": float(np.percentile(took, 50)),
        "send to sink, p99 ms (1000)": float(np.percentile(took, 99)),
        "send to sink, most ms": float(took.max()),
        f"the {WARM_S} s before, from the query's start on, p50 ms": float(np.percentile(cold, 50)),
        f"the {WARM_S} s before, p99 ms": float(np.percentile(cold, 99)),
        "batches": len(full),
        "ms of a batch, median": statistics.median(each["triggerExecution"] for each in full),
        **{
            f"ms of a batch, {phase}": statistics.median(each.get(phase, 0) for each in full)
            for phase in PHASES
        },
        "processor s of the broker": broker_s,
    }


async def produce(nameserver: str, rate: int, seconds: int) -> Figures:
    """Send a batch every `TICK_S`, whether or not those before it were answered."""
    async with Producer("bench-stream", nameservers=nameserver) as producer:
        await producer.send(Message("sent", _stamped()))  # which finds the way to the broker
        began = time.monotonic()
        sends = []
        for tick in range(round(seconds / TICK_S)):
            await asyncio.sleep(began + tick * TICK_S - time.monotonic())
            batch = [Message("sent", _stamped(), tags="TagA") for _ in range(int(rate * TICK_S))]
            sends.append(asyncio.create_task(producer.send_batch(batch)))
        await asyncio.gather(*sends)
        messages = 1 + len(sends) * int(rate * TICK_S)
        return {"messages": messages, "seconds": time.monotonic() - began}


def _stamped() -> bytes:
    return str(time.time_ns() // 1_000_000).encode() + BODY[STAMP:]


if __name__ == "__main__":
    logs.configure("error")
    print(json.dumps(asyncio.run(produce(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
