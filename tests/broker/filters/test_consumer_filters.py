"""`consumerFilter.json`, which RocketMQ reads for subscriptions by expression (Q-30 to Q-33)."""

from __future__ import annotations

import json
from pathlib import Path

from pocketmq.broker.filters.bloom import bit_positions
from pocketmq.broker.filters.consumer_filters import ConsumerFilters
from pocketmq.broker.groups.consumers import ConsumerGroupInfo
from pocketmq.protocol.bodies.clients import ConsumerData
from pocketmq.protocol.subscription import SQL92, SubscriptionData
from support.broker_rig import running_broker


def test_the_bits_are_those_that_rocketmq_computed() -> None:  # Q-33, as 5.3.3 wrote them
    assert bit_positions("G", "T") == [24, 26, 83]


def by_age(version: int, expression: str = "age > 3") -> SubscriptionData:
    return SubscriptionData(
        topic="orders", sub_string=expression, expression_type=SQL92, sub_version=version
    )


def readers(subscription: SubscriptionData) -> ConsumerData:
    return ConsumerData(group_name="readers", subscription_data_set=[subscription])


def test_an_entry_is_forgotten_a_day_after_its_group_went() -> None:
    filters, group = ConsumerFilters(lambda _: True), ConsumerGroupInfo("readers")
    group.subscriptions["orders"] = by_age(5)
    filters.look([group], 1_000)
    filters.look([], 2_000)
    filters.look([], 2_000 + 86_399_999)
    assert filters.wrapper().filter_data_by_topic["orders"].group_filter_data["readers"].dead
    filters.look([], 2_000 + 86_400_000)
    assert filters.wrapper().filter_data_by_topic == {}


async def test_a_subscription_by_expression_is_kept_and_dead_when_its_group_is_gone(
    tmp_path: Path,
) -> None:
    async with running_broker(tmp_path, enable_property_filter=True) as rig:
        file = Path(rig.broker.store.root) / "config" / "consumerFilter.json"

        def entry() -> dict[str, object]:
            topics = json.loads(file.read_text())["filterDataByTopic"]
            found: dict[str, object] = topics["orders"]["groupFilterData"]["readers"]
            return found

        voice = await rig.voice()
        await voice.heartbeat(consumers=[readers(by_age(5))])
        await rig.advance(25)
        born_ms = entry()["bornTime"]
        assert entry() | {"bornTime": 0} == {
            "consumerGroup": "readers", "topic": "orders", "expression": "age > 3",
            "expressionType": "SQL92", "bornTime": 0, "deadTime": 0, "clientVersion": 5,
            "bloomFilterData": {"bitNum": 112, "bitPos": bit_positions("readers", "orders")},
            "dead": False,
        }  # fmt: skip
        await voice.heartbeat(consumers=[readers(by_age(6))])
        await rig.advance(20)
        assert (entry()["clientVersion"], entry()["bornTime"]) == (6, born_ms)
        await voice.leave()
        await rig.advance(20)
        assert entry()["dead"] is True


async def test_after_a_restart_nobody_is_there_and_the_entry_is(tmp_path: Path) -> None:
    async with running_broker(tmp_path, enable_property_filter=True) as rig:
        voice = await rig.voice()
        await voice.heartbeat(consumers=[readers(by_age(5))])
    file = Path(rig.broker.store.root) / "config" / "consumerFilter.json"
    assert "age > 3" in file.read_text()
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        wanted = by_age(7, "age < 3")
        await voice.heartbeat(consumers=[readers(wanted)])
        await rig.advance(25)
        topics = json.loads(file.read_text())["filterDataByTopic"]
        entry = topics["orders"]["groupFilterData"]["readers"]
        assert (entry["expression"], entry["dead"]) == ("age < 3", False)


def test_an_expression_that_is_wrong_is_judged_once_and_never_entered() -> None:
    asked: list[str] = []

    def understands(subscription: SubscriptionData) -> bool:
        asked.append(subscription.sub_string)
        return subscription.sub_string != "age >"

    filters, group = ConsumerFilters(understands), ConsumerGroupInfo("readers")
    group.subscriptions["orders"] = by_age(5, "age >")
    for now_ms in (1_000, 2_000, 3_000):
        filters.look([group], now_ms)
    assert asked == ["age >"]
    assert filters.wrapper().filter_data_by_topic == {}
    group.subscriptions["orders"] = by_age(6)
    filters.look([group], 4_000)
    topics = filters.wrapper().filter_data_by_topic
    assert topics["orders"].group_filter_data["readers"].expression == "age > 3"
