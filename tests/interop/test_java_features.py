"""RocketMQ's Java client (5.3.3) uses our broker's transactions and SQL92, beside our consumers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, MessageSelector, PushConsumer
from support.cluster import running
from support.java import JavaError, run_java

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads the client
]

COUNT = 30
OPTIONS = (
    "--transaction-time-out-ms", "1000", "--transaction-check-interval-ms", "1500",
    "--enable-property-filter",
)  # fmt: skip


async def test_java_transactions_are_delivered_once_to_java_and_python_consumers_by_sql(
    tmp_path: Path,
) -> None:
    """By index modulo 3 a transaction commits, rolls back, or commits when it is asked for."""
    async with running(tmp_path, *OPTIONS) as cluster:
        try:
            sent = await asyncio.to_thread(
                run_java,
                "SendTransactions",
                cluster.nameservers,
                "Booked",
                COUNT,
                "--checks-s",
                240,
            )
            tally = sent.tally("SENT")
            assert (tally["unknown"], tally["checked"]) == (10, 10)
            # Tags are A, B, C by the same index: B is what was rolled back.
            received = await asyncio.to_thread(
                run_java, "ConsumeMessages", cluster.nameservers, "java-readers", "Booked",
                "TAGS <> 'TagC' AND KEYS IS NOT NULL", 10, 240, "--type", "sql",
            )  # fmt: skip
        except JavaError as exc:
            raise JavaError(f"{exc}\n{cluster.story()}") from None
        assert received.tally("RECEIVED")["RECEIVED"] == 10  # none twice
        assert received.counts("TAG") == {"TagA": 10}
        consumer = PushConsumer(
            "readers",
            nameservers=cluster.nameservers,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        )
        consumer.subscribe("Booked", MessageSelector.by_sql("TAGS IN ('TagA', 'TagC')"))
        keys: list[str] = []
        async with consumer, asyncio.timeout(200):
            async for message in consumer:
                keys.append(message.keys or "")
                if len(keys) == 20:
                    break
        assert len(set(keys)) == 20
