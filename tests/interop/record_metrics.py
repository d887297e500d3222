"""Recipe of `tests/golden/metrics.tsv`: which metrics RocketMQ's broker shows, and their labels.

    python tests/interop/record_metrics.py [FILE]

Starts RocketMQ with `metricsExporterType=PROM`, has messages of every type sent, consumed, popped,
given up, committed and rolled back, and reads its `/metrics`. A line is name, type, the labels of
its samples (one line for each set of labels), and the bounds of a histogram's buckets.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pocketmq.client import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from support.eventually import PATIENCE_MS
from support.golden import GOLDEN
from support.java import run_java
from support.real_rocketmq import RealRocketMQ, free_port, real_rocketmq

WAIT_S = 60.0


class Told:
    """Decides each transaction as it is told."""

    def execute_local_transaction(self, _message: Message, argument: object) -> TransactionState:
        assert isinstance(argument, TransactionState)
        return argument

    async def check_local_transaction(self, _message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOWN


def shape(text: str) -> Iterator[str]:
    """A line for each name, type and set of labels of an answer of `/metrics`.

    Read line by line: the exporter writes a unit into the names of samples and not into those of
    their TYPE lines, at which other parsers lose the type.
    """
    kind = ""
    found: dict[tuple[str, str, str], set[str]] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            kind = line.split(" ")[3]
        elif line and not line.startswith("#"):
            name = re.split(r"[{ ]", line, maxsplit=1)[0]
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            bound = labels.pop("le", None)
            bounds = found.setdefault((name, kind, ",".join(sorted(labels))), set())
            if bound is not None:
                bounds.add(bound)
    for (name, kind, names), bounds in found.items():
        yield "\t".join((name, kind, names, ",".join(sorted(bounds, key=float))))


async def use(cluster: RealRocketMQ) -> None:
    """Make every counter count."""
    options = {"nameservers": cluster.namesrv_addr, "encoding": "json"}
    done = asyncio.Event()
    failing = PushConsumer(
        "failing",
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        max_reconsume_times=0,
        **options,  # type: ignore[arg-type]
    )
    failing.subscribe("Orders")

    async def fail(_message: MessageExt) -> ConsumeConcurrentlyStatus:
        done.set()
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    failing.listen(fail)
    async with Admin(**options, api_timeout_ms=PATIENCE_MS) as admin:  # type: ignore[arg-type]
        await admin.create_topic("Orders", queues=4)
        await admin.create_group(SubscriptionGroupConfig(group_name="failing"))
    async with Producer("shop", send_timeout_ms=PATIENCE_MS, **options) as producer:  # type: ignore[arg-type]
        await producer.send(Message("Orders", b"plain"))
        await producer.send(Message("Orders", b"ordered", properties={"__SHARDINGKEY": "17"}))
        await producer.send(Message("Orders", b"late", delay_level=1))
        async with failing:
            await asyncio.wait_for(done.wait(), WAIT_S)
            async with TransactionProducer(
                "bookings", Told(), send_timeout_ms=PATIENCE_MS, **options
            ) as bookings:  # type: ignore[arg-type]
                for state in TransactionState:
                    await bookings.send_in_transaction(Message("Orders", b"seat"), state)
            await asyncio.to_thread(
                run_java,
                "PopAndTime",
                *(cluster.namesrv_addr, "Popped", "poppers", 200, cluster.broker_addr),
            )


async def record(folder: Path) -> str:
    """What the file holds."""
    port = free_port()
    settings = {
        "metricsExporterType": "PROM",
        "metricsPromExporterPort": port,
        "metricsPromExporterHost": "127.0.0.1",
        "timerWheelEnable": "true",
        "recallMessageEnable": "true",
        "reviveQueueNum": 2,
    }
    with real_rocketmq(folder / "store", settings=settings) as cluster:
        using = asyncio.create_task(use(cluster))
        lines: set[str] = set()
        while not using.done():
            await asyncio.wait({using}, timeout=2)
            lines |= set(shape(_get(port)))
        await using
        lines |= set(shape(_get(port)))
    return "".join(f"{line}\n" for line in sorted(lines))


def _get(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: str = answer.read().decode()
    return text


def main() -> None:
    """Write the file of the command line, or the golden one."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else GOLDEN / "metrics.tsv"
    with tempfile.TemporaryDirectory() as folder:
        text = asyncio.run(record(Path(folder) / "real"))
    target.write_text(text)
    print(f"{target}: {len(text.splitlines())} lines")


if __name__ == "__main__":
    main()
