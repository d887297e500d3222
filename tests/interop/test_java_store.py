"""A store moves between RocketMQ and PocketMQ, both ways, and Java reads the same from either."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from support.cluster import running
from support.golden import STORE_SIZES, unpack_store
from support.java import JavaRun, run_java
from support.real_rocketmq import real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

SIZES_FOR_POCKETMQ = [
    f"--{re.sub('[A-Z]', lambda letter: '-' + letter[0].lower(), name)}={size}"
    for name, size in STORE_SIZES.items()
]
TOPICS = ("Plain", "Batch", "Large", "Ordered", "Delayed")


async def java(main: str, namesrv: str, *args: object) -> JavaRun:
    return await asyncio.to_thread(run_java, main, namesrv, *args)


async def dump(namesrv: str, topics: Iterable[str]) -> list[dict[str, Any]]:
    """Every message of the topics, as RocketMQ's client reads it."""
    read = await java("DumpTopics", namesrv, ",".join(topics))
    return [json.loads(line) for line in read.stdout.splitlines()]


@pytest.mark.parametrize("name", ["clean", "killed"])
async def test_java_reads_from_pocketmq_what_a_real_rocketmq_stored(
    name: str, tmp_path: Path
) -> None:
    root = unpack_store(name, tmp_path)
    expected = [json.loads(line) for line in (root / "expected.jsonl").read_text().splitlines()]
    data = tmp_path / "data"
    data.mkdir()
    (root / "store").rename(data / "broker-a")
    async with running(data, *SIZES_FOR_POCKETMQ) as cluster:
        topics = dict.fromkeys(message["topic"] for message in expected)
        read = {
            (message["topic"], message["commitLogOffset"]): message
            for message in await dump(cluster.nameservers, topics)
        }
        # More may be there: what was delayed by 2 h is due by now.
        for message in expected:
            assert read.get((message["topic"], message["commitLogOffset"])) == message
        # Its consumer goes on at the offsets that RocketMQ stored.
        await java("SendMessages", cluster.nameservers, "GoldenPlain", 90, "--first", 1200)
        fresh = 90 if name == "clean" else 390  # `killed` has 300 that nobody had consumed
        arguments = ("golden-tags", "GoldenPlain", "TagA || TagC", fresh * 2 // 3, 240)
        received = await java("ConsumeMessages", cluster.nameservers, *arguments)
        assert received.tally("RECEIVED")["RECEIVED"] == fresh * 2 // 3


async def test_a_real_rocketmq_opens_what_pocketmq_stored(tmp_path: Path) -> None:
    async with running(tmp_path, *SIZES_FOR_POCKETMQ) as cluster:
        address = cluster.nameservers
        for topic, count, *options in (
            ("Plain", 900),
            ("Batch", 160, "--batch", 16),
            ("Large", 12, "--size", 6000),
            ("Ordered", 60, "--shards", 3),
            ("Delayed", 6, "--delay", 18),
        ):
            await java("SendMessages", address, topic, count, *options)
        await java("ConsumeMessages", address, "readers", "Plain", "*", 900, 240)
        ours = await dump(address, (*TOPICS[:-1], "SCHEDULE_TOPIC_XXXX"))
    assert len(ours) == 900 + 160 + 12 + 60 + 6
    with real_rocketmq(tmp_path / "broker-a", settings=STORE_SIZES) as real:
        address = real.namesrv_addr
        assert await dump(address, (*TOPICS[:-1], "SCHEDULE_TOPIC_XXXX")) == ours
        # Its broker appends behind our records, and the group goes on where it was.
        await java("SendMessages", address, "Plain", 90, "--first", 900)
        received = await java("ConsumeMessages", address, "readers", "Plain", "*", 90, 240)
        assert received.tally("RECEIVED")["RECEIVED"] == 90
        await asyncio.to_thread(real.stop_broker)
    async with running(tmp_path, *SIZES_FOR_POCKETMQ) as cluster:
        assert len(await dump(cluster.nameservers, ("Plain",))) == 990
