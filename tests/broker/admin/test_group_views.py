"""What tools ask about groups (303, 317, 321, 343, 345) and order (18, 225, 329)."""

from __future__ import annotations

import pytest

from pocketmq.broker.store import MessageStore
from pocketmq.protocol.bodies.clients import QuerySubscriptionBody
from pocketmq.protocol.bodies.groups import (
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionGroupWrapper,
)
from pocketmq.protocol.bodies.offsets import (
    ConsumeStatsList,
    QueryConsumeQueueBody,
    QueryConsumeTimeSpanBody,
)
from pocketmq.protocol.bodies.route import TopicList
from pocketmq.protocol.bodies.topics import CreateTopicListBody, TopicConfig
from pocketmq.protocol.body import decode_body, parse_mq_key
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.groups import (
    GetAllSubscriptionGroupsRequestHeader,
    UpdateSubscriptionGroupListRequestHeader,
)
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsInBrokerHeader,
    QueryConsumeQueueRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from pocketmq.protocol.headers.topics import (
    CreateTopicListRequestHeader,
    DeleteExpiredCommitLogRequestHeader,
    GetTopicConfigRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from support.broker_rig import START_MS, BrokerRig, Voice, consumer


async def test_topics_and_subscription_of_a_group_are_told(
    rig: BrokerRig, encoding: Encoding
) -> None:  # 343, 345
    voice = await rig.voice(encoding)
    await voice.send()
    await voice.heartbeat(consumers=[consumer()])
    await voice.commit(1)
    reply = await voice.ask(QueryTopicsByConsumerRequestHeader(group="readers"))
    topics = decode_body(reply.body_view, TopicList, encoding)
    assert topics.topic_list == ["orders"]
    assert topics.broker_addr == str(rig.broker.core.address)
    for topic, known in (("orders", True), ("nothing", False)):
        asked = QuerySubscriptionByConsumerRequestHeader(group="readers", topic=topic)
        reply = await voice.ask(asked)
        body = decode_body(reply.body_view, QuerySubscriptionBody, encoding)
        assert (body.group, body.topic) == ("readers", topic)
        assert (body.subscription_data is not None) is known


async def test_a_group_s_place_in_time_is_told_queue_by_queue(
    rig: BrokerRig, encoding: Encoding
) -> None:  # 303
    voice = await rig.voice(encoding)
    await voice.heartbeat(consumers=[consumer()])
    for _ in range(3):
        await voice.send()
        await rig.clock.move_to(rig.clock.time_ms() + 10_000)
    await voice.commit(2)
    header = QueryConsumeTimeSpanRequestHeader(topic="orders", group="readers")
    reply = await voice.ask(header)
    spans = decode_body(reply.body_view, QueryConsumeTimeSpanBody, encoding).consume_time_span_set
    first, second = spans[:2]
    assert first.message_queue.queue_id == 0
    assert (first.min_time_stamp, first.max_time_stamp) == (START_MS, START_MS + 20_000)
    assert (first.consume_time_stamp, first.delay_time) == (START_MS + 10_000, 10_000)
    assert (second.min_time_stamp, second.max_time_stamp, second.delay_time) == (-1, -1, 0)
    header = QueryConsumeTimeSpanRequestHeader(topic="nothing", group="readers")
    assert (await voice.ask(header)).code == 17


async def test_progress_of_all_groups_is_one_answer(rig: BrokerRig, encoding: Encoding) -> None:
    voice = await rig.voice(encoding)  # 317
    for _ in range(3):
        await voice.send()
    groups = [SubscriptionGroupConfig(group_name=name) for name in ("readers", "others")]
    body = SubscriptionGroupList(group_config_list=groups)
    assert (await voice.ask(UpdateSubscriptionGroupListRequestHeader(), body)).code == 0
    await voice.commit(2)
    reply = await voice.ask(GetConsumeStatsInBrokerHeader(is_order=False))
    found = decode_body(reply.body_view, ConsumeStatsList, encoding)
    by_group = {name: stats for table in found.consume_stats_list for name, stats in table.items()}
    assert by_group["others"] == []
    [orders] = by_group["readers"]
    ends = {
        parse_mq_key(key).queue_id: (each.consumer_offset, each.broker_offset)
        for key, each in orders.offset_table.items()
    }
    assert ends == {0: (2, 3), 1: (0, 0), 2: (0, 0), 3: (0, 0)}
    assert found.total_diff == 1
    reply = await voice.ask(GetConsumeStatsInBrokerHeader(is_order=True))
    found = decode_body(reply.body_view, ConsumeStatsList, encoding)
    assert not any(stats for table in found.consume_stats_list for stats in table.values())


async def test_entries_of_a_queue_are_told_as_they_lie_on_the_disk(
    rig: BrokerRig, encoding: Encoding
) -> None:  # 321
    voice = await rig.voice(encoding)
    for _ in range(5):
        await voice.send()
    await voice.heartbeat(consumers=[consumer()])
    header = QueryConsumeQueueRequestHeader(
        topic="orders", queue_id=0, index=2, count=2, consumer_group="readers"
    )
    reply = await voice.ask(header)
    body = decode_body(reply.body_view, QueryConsumeQueueBody, encoding)
    assert (body.min_queue_index, body.max_queue_index) == (0, 5)
    assert body.filter_data == "null"
    assert body.subscription_data is not None
    assert body.queue_data is not None
    store = rig.broker.core.store
    assert [each.physic_offset for each in body.queue_data] == [
        store.reads.physical_offset("orders", 0, offset) for offset in (2, 3)
    ]
    assert all(each.physic_size > 0 for each in body.queue_data)
    for queue_id, index, code in ((0, 7, 0), (9, 0, 1)):
        header = QueryConsumeQueueRequestHeader(
            topic="orders", queue_id=queue_id, index=index, count=2, consumer_group="nobody"
        )
        reply = await voice.ask(header)
        assert reply.code == code
        assert "is not exist!" in (reply.remark or "")


async def test_topics_of_a_list_are_made_together_or_not_at_all(
    rig: BrokerRig, encoding: Encoding
) -> None:  # 18
    voice = await rig.voice(encoding)
    good = TopicConfig(
        topic_name="A", read_queue_nums=2, write_queue_nums=2, attributes={"+message.type": "FIFO"}
    )
    bad = TopicConfig(topic_name="no good")
    for configs, code in (([good, bad], 29), ([good, TopicConfig(topic_name="B")], 0)):
        body = CreateTopicListBody(topic_config_list=configs)
        assert (await voice.ask(CreateTopicListRequestHeader(), body)).code == code
        known = await voice.ask(GetTopicConfigRequestHeader(topic="A"))
        assert known.code == (17 if code else 0)
    made = decode_body(known.body_view, TopicConfig, encoding)
    assert (made.read_queue_nums, made.attributes) == (2, {"message.type": "FIFO"})
    assert (await voice.ask(GetTopicConfigRequestHeader(topic="B"))).code == 0
    again = await voice.ask(CreateTopicListRequestHeader(), body)
    assert again.code == 0


async def test_groups_of_a_list_are_made_together_or_not_at_all(voice: Voice) -> None:  # 225
    good = SubscriptionGroupConfig(group_name="g1", retry_max_times=3)
    bad = SubscriptionGroupConfig(group_name="no good")
    for configs, code in (([good, bad], 29), ([good], 0)):
        body = SubscriptionGroupList(group_config_list=configs)
        reply = await voice.ask(UpdateSubscriptionGroupListRequestHeader(), body)
        assert reply.code == code
        # Who asks for a group by its name would make it (B-40).
        known = await voice.ask(GetAllSubscriptionGroupsRequestHeader())
        table = decode_body(known.body_view, SubscriptionGroupWrapper, known.encoding)
        assert ("g1" in table.subscription_group_table) is not bool(code)


async def test_a_tool_has_expired_files_deleted_at_another_hour(
    voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:  # 329; what the store does then: tests/broker/store/test_store_cleaning.py
    asked: list[MessageStore] = []
    monkeypatch.setattr(MessageStore, "delete_expired_files", lambda store: asked.append(store))
    assert (await voice.ask(DeleteExpiredCommitLogRequestHeader())).code == 0
    assert len(asked) == 1
