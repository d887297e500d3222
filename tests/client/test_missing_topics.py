"""A consumer that starts before its topic exists says so, and does not wait 30 s for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, Message
from support.consuming import Collected
from support.memory_cluster import memory_cluster
from support.own_logs import own_logs


async def test_a_consumer_that_was_first_gets_messages_seconds_after_its_topic_is_made(
    tmp_path: Path,
) -> None:
    got = Collected()
    async with memory_cluster(tmp_path) as cluster:
        consumer = cluster.consumer(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer.subscribe("Late")
        consumer.listen(got)
        with own_logs() as lines:
            async with consumer, cluster.producer() as producer:
                await cluster.advance(1.5)
                await cluster.create_topic("Late", queues=1)
                await producer.send(Message("Late", b"first"))
                await cluster.advance(1.6)  # it looks at 1 s and at 3 s
                await cluster.until(lambda: got.bodies == [b"first"], "it is consumed", step_s=0.1)
                assert cluster.clock.monotonic() < 6
        said = [line for line in lines if line["event"] == "topic.missing"]
        assert [line["topics"] for line in said] == [["Late"]]
        assert "pocketmq topic create" in said[0]["advice"]


async def test_a_topic_that_never_comes_is_asked_for_four_times_and_then_as_all_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # P-3
    async with memory_cluster(tmp_path) as cluster:
        consumer = cluster.consumer()
        consumer.subscribe("Never")
        consumer.listen(Collected())
        asked: list[str] = []
        table = cluster.nameserver.table
        lookup = table.route

        def counted(topic: str) -> object:
            asked.append(topic)
            return lookup(topic)

        monkeypatch.setattr(table, "route", counted)
        async with consumer:
            assert asked.count("Never") == 1
            await cluster.advance(20)
            after_20_s = asked.count("Never")
            await cluster.advance(60)
            assert asked.count("Never") - after_20_s == 2, "with all routes, each 30 s"
        assert after_20_s == 1 + 4 + 1, "at the start, four looks, and the first refresh"
