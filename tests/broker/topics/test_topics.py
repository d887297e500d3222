"""The topic table without a broker around it."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.broker.topics.topic_configs import TopicConfigManager, TopicRules
from pocketmq.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.scalars import Perm

NOW_MS = 1_700_000_000_000


def table(**options: Any) -> TopicConfigManager:
    return TopicConfigManager("broker-a", "DefaultCluster", rules=TopicRules(**options))


def create(topics: TopicConfigManager, name: str = "orders", queues: int = 4) -> TopicConfig | None:
    return topics.create_for_send(name, "TBW102", queues, now_ms=NOW_MS)


def test_a_broker_makes_its_own_topics_at_boot() -> None:  # E-70
    topics = table()
    made = {name: (c.read_queue_nums, c.perm) for name, c in topics.table.items()}
    assert made == {
        "SELF_TEST_TOPIC": (1, 6),
        "TBW102": (8, 7),
        "BenchmarkTest": (1024, 6),
        "DefaultCluster": (16, 7),
        "broker-a": (1, 7),
        "OFFSET_MOVED_EVENT": (1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 6),
        "rmq_sys_REVIVE_LOG_DefaultCluster": (8, 6),
        "rmq_sys_SYNC_BROKER_MEMBER_broker-a": (1, 1),
        "RMQ_SYS_TRANS_HALF_TOPIC": (1, 6),
        "RMQ_SYS_TRANS_OP_HALF_TOPIC": (1, 6),
        "rmq_sys_wheel_timer": (1, 6),
    }


def test_4_9_makes_fewer_topics_at_boot() -> None:  # E-70 [H]
    names = set(table(modern=False).table)
    assert not any(name.startswith(("rmq_sys_", "RMQ_SYS_TRANS")) for name in names)


def test_switches_change_the_topics_at_boot() -> None:  # E-70
    topics = table(
        auto_create=lambda: False,
        broker_topic_enable=False,
        cluster_topic_enable=False,
        trace_topic_enable=True,
    )
    assert topics.get("TBW102") is None
    assert topics.table["broker-a"].perm == topics.table["DefaultCluster"].perm == Perm.INHERIT
    assert topics.table["RMQ_SYS_TRACE_TOPIC"].read_queue_nums == 1


@pytest.mark.parametrize(("wanted", "got"), [(4, 4), (8, 8), (16, 8), (1, 1), (0, 0), (-3, 0)])
def test_a_new_topic_gets_the_smaller_of_both_queue_numbers(wanted: int, got: int) -> None:  # B-12
    created = create(table(), queues=wanted)
    assert created is not None
    assert (created.read_queue_nums, created.write_queue_nums, created.perm) == (got, got, 6)


def test_a_new_topic_copies_only_a_template_that_may_be_inherited() -> None:  # B-12
    topics = table()
    assert topics.create_for_send("orders", "BenchmarkTest", 4, now_ms=NOW_MS) is None
    assert topics.create_for_send("orders", "nobody", 4, now_ms=NOW_MS) is None
    assert topics.create_for_send("orders", "DefaultCluster", 4, now_ms=NOW_MS) is not None


def test_the_unit_bit_comes_from_the_send(  # B-12
) -> None:
    created = table().create_for_send("orders", "TBW102", 4, now_ms=NOW_MS, unit_mode=True)
    assert created is not None
    assert created.topic_sys_flag == 1


def test_a_stored_template_creates_nothing_while_auto_create_is_off() -> None:  # B-13
    topics = table(auto_create=lambda: False)
    stored = TopicConfigSerializeWrapper(
        topic_config_table={"TBW102": TopicConfig(topic_name="TBW102", perm=7)}
    )
    topics.load(stored)
    assert create(topics) is None


def test_a_retry_topic_is_created_although_auto_create_is_off() -> None:  # B-14
    created = create(table(auto_create=lambda: False), "%RETRY%readers", 4)
    assert created is not None
    assert (created.read_queue_nums, created.write_queue_nums, created.perm) == (1, 1, 6)


def test_every_change_moves_the_version_and_tells_the_listeners() -> None:  # N-10
    topics, heard = table(), []
    topics.changed.connect(heard.append)
    create(topics)
    assert topics.data_version.counter == 1
    assert topics.data_version.timestamp == NOW_MS
    same = topics.table["orders"]
    assert not topics.put(same, NOW_MS + 1)
    assert topics.delete("orders", NOW_MS + 2)
    assert not topics.delete("orders", NOW_MS + 3)
    assert topics.data_version.counter == 2
    assert heard == ["orders", "orders"]


def test_the_dead_letter_topic_has_one_queue_that_can_be_read() -> None:  # B-83
    config = table().ensure_dlq_topic("readers", now_ms=NOW_MS)
    assert (config.topic_name, config.read_queue_nums, config.perm) == ("%DLQ%readers", 1, 6)


def test_an_existing_retry_topic_stays_as_it_is() -> None:  # B-21
    topics = table()
    first = topics.ensure_retry_topic("readers", 3, now_ms=NOW_MS, order=True)
    assert topics.ensure_retry_topic("readers", 1, now_ms=NOW_MS) is first
    assert (first.read_queue_nums, first.order) == (3, True)


def test_what_the_broker_may_not_no_registered_topic_may() -> None:  # B-5
    topics = table()
    create(topics)
    registered = topics.wrapper(permission=Perm.READ)
    assert registered.topic_config_table["orders"].perm == Perm.READ
    assert registered.topic_config_table["TBW102"].perm == Perm.READ
    assert topics.table["orders"].perm == Perm.RW


def test_some_topics_can_be_registered_alone() -> None:  # B-6
    topics = table()
    create(topics)
    wrapper = topics.wrapper(["orders", "gone"])
    assert list(wrapper.topic_config_table) == ["orders"]
    assert wrapper.data_version == topics.data_version


def test_topics_that_a_nameserver_calls_ordered_become_ordered_once() -> None:  # B-8
    topics = table()
    create(topics)
    assert topics.mark_ordered(["orders", "unknown"], NOW_MS) == ["orders"]
    assert topics.mark_ordered(["orders"], NOW_MS) == []
    assert topics.is_ordered("orders")
    assert topics.data_version.counter == 2
