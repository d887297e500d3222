"""`consumerFilter.json`, which RocketMQ reads for subscriptions by expression (Q-30 to Q-33)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pocketmq.broker.groups.consumers import ConsumerGroupInfo
from pocketmq.broker.kept_filters.bloom import bit_positions, murmur3_low64
from pocketmq.broker.kept_filters.consumer_filters import (
    BloomFilterData,
    ConsumerFilterFile,
    ConsumerFilters,
    FilterEntry,
    FiltersOfTopic,
)
from pocketmq.protocol.bodies.clients import ConsumerData
from pocketmq.protocol.messages.subscription import SQL92, SubscriptionData
from support.broker_rig import running_broker


def test_the_bits_are_those_that_rocketmq_computed() -> None:  # Q-33, as 5.3.3 wrote them
    assert bit_positions("G", "T") == [24, 26, 83]


@pytest.mark.parametrize(
    ("text", "low"),
    [
        (b"", 0),
        (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
        (b"The quick brown fox jumps over the lazy cog", 0x658CA970FF85269A),
    ],
)
def test_murmur3_is_that_of_its_published_test_vectors(text: bytes, low: int) -> None:
    assert murmur3_low64(text) == low


def test_every_byte_of_a_name_counts() -> None:
    for size in range(1, 50):
        name = bytes(range(size))
        others = {murmur3_low64(name[:at] + b"x" + name[at + 1 :]) for at in range(size)}
        assert len(others | {murmur3_low64(name)}) == size + 1


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


def one_entry(filters: ConsumerFilters) -> FilterEntry:
    return filters.wrapper().filter_data_by_topic["orders"].group_filter_data["readers"]


def test_a_group_that_comes_back_with_its_expression_has_its_entry_again() -> None:
    filters, group = ConsumerFilters(lambda _: True), ConsumerGroupInfo("readers")
    group.subscriptions["orders"] = by_age(5)
    filters.look([group], 1_000)
    filters.look([], 2_000)
    assert (one_entry(filters).dead, one_entry(filters).dead_time) == (True, 2_000)
    filters.look([group], 3_000)
    entry = one_entry(filters)
    assert (entry.dead, entry.dead_time, entry.born_time) == (False, 0, 1_000)


def test_the_file_is_written_again_only_after_a_change() -> None:
    filters, group = ConsumerFilters(lambda _: True), ConsumerGroupInfo("readers")
    group.subscriptions["orders"] = by_age(5)
    written = []
    days = 86_400_000
    looks = [([group], 0), ([group], 1), ([], 2), ([], 3), ([], days + 2), ([], days + 3)]
    for groups, now_ms in looks:
        filters.look(groups, now_ms)
        written.append(filters.unsaved.take())
    assert written == [True, False, True, False, True, False]


def test_a_subscription_by_tags_has_no_entry() -> None:
    filters, group = ConsumerFilters(lambda _: True), ConsumerGroupInfo("readers")
    group.subscriptions["orders"] = SubscriptionData.parse("orders", "A || B", 1)
    filters.look([group], 1_000)
    assert filters.wrapper().filter_data_by_topic == {}


def test_entries_go_with_their_topic() -> None:
    filters, group = ConsumerFilters(lambda _: True), ConsumerGroupInfo("readers")
    group.subscriptions["orders"] = by_age(5)
    filters.look([group], 1_000)
    filters.unsaved.take()
    filters.forget_topic("readers")
    assert not filters.unsaved
    assert one_entry(filters).expression == "age > 3"
    filters.forget_topic("orders")
    assert filters.unsaved
    assert filters.wrapper().filter_data_by_topic == {}


@pytest.mark.parametrize(
    ("born_ms", "dead_ms", "is_dead", "loaded_ms"),
    [
        (1_000, 0, True, 70_000),  # was there: it went half a minute before the file is read
        (90_000, 0, True, 90_000),
        (1_000, 5_000, True, 5_000),
        (5_000, 5_000, True, 5_000),
        (5_000, 4_999, False, 4_999),
    ],
)
def test_what_a_file_says_is_taken_over(
    born_ms: int, dead_ms: int, is_dead: bool, loaded_ms: int
) -> None:
    stored = FilterEntry(consumer_group="readers", born_time=born_ms, dead_time=dead_ms)
    of_topic = FiltersOfTopic(topic="orders", group_filter_data={"readers": stored})
    filters = ConsumerFilters(lambda _: True)
    filters.load(ConsumerFilterFile(filter_data_by_topic={"orders": of_topic}), 100_000)
    entry = one_entry(filters)
    assert (entry.dead, entry.dead_time) == (is_dead, loaded_ms)
    assert entry.bloom_filter_data.bit_pos == bit_positions("readers", "orders")


def test_bits_of_the_same_size_are_taken_over_and_others_computed() -> None:
    for bits, kept in (
        (BloomFilterData(bit_pos=[1, 2, 3]), True),
        (BloomFilterData(bit_num=113), False),
    ):
        bits.bit_pos = [1, 2, 3]
        stored = FilterEntry(bloom_filter_data=bits)
        of_topic = FiltersOfTopic(topic="orders", group_filter_data={"readers": stored})
        filters = ConsumerFilters(lambda _: True)
        filters.load(ConsumerFilterFile(filter_data_by_topic={"orders": of_topic}), 100_000)
        expected = [1, 2, 3] if kept else bit_positions("readers", "orders")
        assert one_entry(filters).bloom_filter_data.bit_pos == expected


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
    filters.look([], 3_500)
    filters.look([group], 3_600)
    assert asked == ["age >"] * 2  # it was gone, and is judged again
    assert filters.wrapper().filter_data_by_topic == {}
    group.subscriptions["orders"] = by_age(6)
    filters.look([group], 4_000)
    topics = filters.wrapper().filter_data_by_topic
    assert topics["orders"].group_filter_data["readers"].expression == "age > 3"
