"""Consumers that choose by SQL92, with a broker that filters (Q-20 to Q-26)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, Message, MessageSelector, PullConsumer
from pocketmq.protocol.errors import BrokerError, FilterError
from support.consuming import Collected
from support.memory_cluster import MemoryCluster, memory_cluster

FIRST = ConsumeFromWhere.FIRST_OFFSET


async def send_prices(cluster: MemoryCluster, *prices: object) -> None:
    async with cluster.producer() as producer:
        for price in prices:
            properties = {} if price is None else {"price": str(price)}
            await producer.send(Message("T", str(price).encode(), properties=properties))


@pytest.mark.parametrize("profile", ["4.9", "5.x"])
@pytest.mark.parametrize("post", [False, True])
async def test_a_push_consumer_gets_what_its_expression_chooses(
    tmp_path: Path, profile: str, post: bool
) -> None:
    async with memory_cluster(tmp_path, profile=profile, enable_property_filter=True) as cluster:
        await cluster.create_topic("T", queues=1)
        await send_prices(cluster, 1, 6, None, "x", 7)
        collected = Collected()
        consumer = cluster.consumer(consume_from_where=FIRST, post_subscription_when_pull=post)
        consumer.subscribe("T", MessageSelector.by_sql("price > 5"))
        consumer.listen(collected)
        async with consumer:
            await cluster.until(lambda: len(collected) == 2, "two are consumed")
            await send_prices(cluster, 2, 8)  # while the pull is held
            await cluster.until(lambda: len(collected) == 3, "a third is consumed")
            await cluster.advance(20)
        assert collected.bodies == [b"6", b"7", b"8"]


async def test_a_pull_moves_on_past_what_is_not_wanted(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path, enable_property_filter=True) as cluster:
        await cluster.create_topic("T", queues=1)
        await send_prices(cluster, 1, 6, 2)
        [queue] = cluster.queues_of("T")
        async with PullConsumer("g", **cluster.client_options) as consumer:
            found = await consumer.pull(queue, MessageSelector.by_sql("price > 5"), 0)
            assert [message.body for message in found.messages] == [b"6"]
            nothing = await consumer.pull(queue, MessageSelector.by_sql("price > 9"), 0)
            assert (nothing.messages, nothing.next_begin_offset) == ([], 3)


async def test_an_expression_that_is_wrong_is_refused_where_it_is_written(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:
        consumer = cluster.consumer()
        with pytest.raises(FilterError, match="at character 8: the expression breaks off"):
            MessageSelector.by_sql("price >")
        with pytest.raises(FilterError, match="at character 8: the expression breaks off"):
            consumer.subscribe("T", "price >", expression_type="SQL92")


async def test_a_broker_that_does_not_filter_says_so_at_the_start(tmp_path: Path) -> None:
    async with memory_cluster(tmp_path) as cluster:  # off by default
        await cluster.create_topic("T", queues=1)
        consumer = cluster.consumer()
        consumer.subscribe("T", MessageSelector.by_sql("price > 5"))
        consumer.listen(Collected())
        with pytest.raises(BrokerError, match="set enablePropertyFilter"):
            await consumer.start()
