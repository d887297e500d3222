"""The topic table without a broker around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pocketmq.broker.topics.topic_configs import TopicConfigManager, TopicRules
from pocketmq.protocol.bodies.topics import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.errors import OverBudgetError
from pocketmq.protocol.messages.validation import HALF_TOPIC, OP_HALF_TOPIC
from pocketmq.protocol.scalars import Perm
from pocketmq.runtime.profile import PROFILE_4_9, PROFILE_5_3, PROFILE_5_5, Profile
from support.broker_rig import running_broker

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


def test_releases_with_rocksdb_make_two_more() -> None:  # E-70
    more = table(rocksdb=True).table.keys() - table().table.keys()
    assert more == {"RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC", "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"}


@pytest.mark.parametrize(
    ("profile", "count"), [(PROFILE_4_9, 0), (PROFILE_5_3, 2), (PROFILE_5_5, 4)]
)
async def test_a_broker_makes_the_topics_for_half_messages_of_its_release(
    tmp_path: Path, profile: Profile, count: int
) -> None:  # E-70
    async with running_broker(tmp_path, profile) as rig:
        made = [name for name in rig.broker.topics.table if name.endswith("_HALF_TOPIC")]
        assert len(made) == count


def test_4_9_makes_fewer_topics_at_boot() -> None:  # E-70
    names = set(table(modern=False).table)
    assert not any(name.startswith(("rmq_sys_", "RMQ_SYS_TRANS")) for name in names)


@pytest.mark.parametrize("modern", [False, True])
def test_every_release_lists_the_topics_of_half_messages(modern: bool) -> None:  # E-70
    assert table(modern=modern).reserved_topics >= {HALF_TOPIC, OP_HALF_TOPIC}


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
    plain, retry = create(table()), create(table(), "%RETRY%readers")
    assert plain is not None
    assert retry is not None
    assert (plain.topic_sys_flag, retry.topic_sys_flag) == (0, 0)
    of_a_unit = table().create_for_send(
        "%RETRY%readers", "TBW102", 4, now_ms=NOW_MS, unit_mode=True
    )
    assert of_a_unit is not None
    assert of_a_unit.topic_sys_flag == 2


def test_the_unit_bit_of_a_retry_topic_is_another() -> None:  # B-21
    flags = [
        table().ensure_retry_topic("readers", 1, now_ms=NOW_MS, unit_mode=unit).topic_sys_flag
        for unit in (False, True)
    ]
    assert flags == [0, 2]


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
    assert topics.data_version.counter == 1
    assert topics.delete("orders", NOW_MS + 2)
    assert not topics.delete("orders", NOW_MS + 3)
    assert topics.data_version.counter == 2
    assert heard == ["orders", "orders"]


def test_another_permission_or_epoch_of_the_broker_is_a_new_version_of_its_topics() -> None:
    # O-7, D-61
    topics, heard = table(), []
    topics.changed.connect(heard.append)
    topics.note_epoch(7, NOW_MS)
    topics.note_new_permission(NOW_MS + 1)
    version = topics.data_version
    assert (version.counter, version.timestamp, version.state_version) == (2, NOW_MS + 1, 7)
    assert topics.put(TopicConfig(topic_name="orders"), NOW_MS + 2)
    assert topics.data_version.state_version == 7
    assert heard == ["orders"]


def test_what_was_stored_and_what_the_master_has_come_with_their_version() -> None:  # I-12
    topics, heard = table(), []
    topics.changed.connect(heard.append)
    stored = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=5),
        topic_config_table={"orders": TopicConfig(topic_name="orders", perm=4)},
    )
    topics.load(stored)
    assert topics.table["orders"].perm == 4
    assert topics.data_version == DataVersion(counter=5)
    assert heard == []
    mine = set(topics.table) - {"orders"}
    master = TopicConfigSerializeWrapper(
        data_version=DataVersion(counter=9),
        topic_config_table={"orders": TopicConfig(topic_name="orders")},
    )
    assert set(topics.replace(master)) == set(heard) == mine | {"orders"}
    assert topics.table == master.topic_config_table
    assert topics.data_version == DataVersion(counter=9)


def test_a_broker_knows_its_own_topics() -> None:  # E-70
    topics = table()
    create(topics)
    own = ("broker-a", "DefaultCluster_REPLY_TOPIC", "TBW102", "rmq_sys_anything")
    assert all(topics.is_system(name) for name in own)
    assert not topics.is_system("orders")
    assert not table(auto_create=lambda: False).is_ordered("nobody")


def test_a_topic_of_the_brokers_own_is_made_when_it_is_needed() -> None:
    topics = table(modern=False)
    made = topics.ensure_system_topic("RMQ_SYS_TRANS_HALF_TOPIC", queue_nums=3, now_ms=NOW_MS)
    assert (made.read_queue_nums, made.write_queue_nums, made.perm) == (3, 3, 6)
    again = topics.ensure_system_topic("RMQ_SYS_TRANS_HALF_TOPIC", queue_nums=1, now_ms=NOW_MS)
    assert again is made
    assert topics.data_version.counter == 1


def test_strangers_can_make_as_many_topics_as_the_budget_has() -> None:
    topics = TopicConfigManager("b", "c", budget=lambda: Budget(records=14))
    room = 14 - len(topics.table)
    for n in range(room):
        assert create(topics, f"orders-{n}") is not None
    with pytest.raises(OverBudgetError, match="topics of this broker"):
        create(topics, "one-more")
    assert len(topics.table) == 14


def test_the_dead_letter_topic_has_one_queue_that_can_be_read() -> None:  # B-83
    config = table().ensure_dlq_topic("readers", now_ms=NOW_MS)
    assert (config.topic_name, config.read_queue_nums, config.perm) == ("%DLQ%readers", 1, 6)


def test_what_a_broker_makes_for_a_group_is_plain() -> None:  # B-21, B-83
    topics = table()
    retry = topics.ensure_retry_topic("readers", 3, now_ms=NOW_MS)
    dead = topics.ensure_dlq_topic("readers", now_ms=NOW_MS)
    assert (topics.get("%RETRY%readers"), topics.get("%DLQ%readers")) == (retry, dead)
    made = [(each.read_queue_nums, each.perm, each.topic_sys_flag) for each in (retry, dead)]
    assert made == [(3, 6, 0), (1, 6, 0)]
    assert [each.order for each in (retry, dead)] == [False, False]


def test_an_existing_retry_topic_takes_over_its_order_and_nothing_else() -> None:  # B-21
    topics = table()
    first = topics.ensure_retry_topic("readers", 3, now_ms=NOW_MS, order=True)
    assert topics.ensure_retry_topic("readers", 1, now_ms=NOW_MS, order=True) is first
    assert (first.read_queue_nums, first.write_queue_nums, first.order) == (3, 3, True)
    again = topics.ensure_retry_topic("readers", 1, now_ms=NOW_MS)
    assert (again.read_queue_nums, again.write_queue_nums, again.order) == (3, 3, False)
    assert not topics.ensure_retry_topic("others", 1, now_ms=NOW_MS).order


def test_4_9_never_makes_a_retry_topic_ordered_nor_changes_one() -> None:  # B-21
    topics = table(retry_topics_follow_order=False)
    retry = topics.ensure_retry_topic("readers", 3, now_ms=NOW_MS, order=True)
    assert not retry.order
    by_hand = msgspec.structs.replace(retry, order=True)
    topics.put(by_hand, NOW_MS)
    assert topics.ensure_retry_topic("readers", 3, now_ms=NOW_MS) is by_hand


def test_what_the_broker_may_not_no_registered_topic_may() -> None:  # B-5
    topics = table()
    create(topics)
    registered = topics.wrapper(permission=Perm.READ)
    assert registered.topic_config_table["orders"].perm == Perm.READ
    assert registered.topic_config_table["TBW102"].perm == Perm.READ
    assert topics.table["orders"].perm == Perm.RW


def test_the_permission_of_a_broker_of_4_9_replaces_each_topic_s() -> None:  # B-5
    topics = table(permission_replaces=True)
    topics.put(TopicConfig(topic_name="sealed", perm=Perm.WRITE, order=True), NOW_MS)
    registered = topics.wrapper(permission=Perm.READ).topic_config_table["sealed"]
    assert (registered.perm, registered.order) == (Perm.READ, False)
    assert topics.wrapper().topic_config_table["sealed"].perm == Perm.WRITE


def test_some_topics_can_be_registered_alone() -> None:  # B-6
    topics = table()
    create(topics)
    wrapper = topics.wrapper(["orders", "gone"])
    assert list(wrapper.topic_config_table) == ["orders"]
    assert wrapper.data_version == topics.data_version


@pytest.mark.parametrize("whole", [False, True])
def test_a_topic_that_the_order_table_lacks_is_not_ordered_in_4_9(whole: bool) -> None:  # B-8
    topics = table(order_table_is_whole=whole)
    create(topics)
    create(topics, "other")
    topics.take_order_table(["orders", "other"], NOW_MS)
    assert topics.take_order_table(["orders"], NOW_MS) == (["other"] if whole else [])
    assert topics.is_ordered("orders")
    assert topics.is_ordered("other") == (not whole)


def test_topics_that_a_nameserver_calls_ordered_become_ordered_once() -> None:  # B-8
    topics = table()
    create(topics)
    assert topics.take_order_table(["orders", "unknown"], NOW_MS) == ["orders"]
    assert topics.take_order_table(["orders"], NOW_MS) == []
    assert topics.is_ordered("orders")
    assert topics.data_version.counter == 2
