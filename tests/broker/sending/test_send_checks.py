"""What is checked before a message is stored, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.sending.send_checks import SendChecks, SendPlan
from pocketmq.broker.topics.topic_configs import TopicConfigManager, TopicRules
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode

NOW_MS = 1_700_000_000_000


def checks(*topics: TopicConfig, auto_create: bool = True, **options: Any) -> SendChecks:
    table = TopicConfigManager(
        "broker-a", "DefaultCluster", rules=TopicRules(auto_create=lambda: auto_create)
    )
    for topic in topics:
        table.put(topic, NOW_MS)
    return SendChecks(table, broker_name="broker-a", **options)


def plan(sends: SendChecks, topic: str = "orders") -> SendPlan:
    return sends.plan(topic, "TBW102", 4, now_ms=NOW_MS)


def refusal(sends: SendChecks, topic: str) -> int:
    with pytest.raises(RequestRefusedError) as caught:
        plan(sends, topic)
    return caught.value.code


def test_an_unknown_topic_is_created_by_the_first_message() -> None:  # B-12
    assert plan(checks()).queue_limit == 4


def test_an_unknown_topic_is_refused_where_none_may_be_created() -> None:  # B-12, B-13
    assert refusal(checks(auto_create=False), "orders") == ResponseCode.TOPIC_NOT_EXIST


def test_a_retry_topic_is_created_all_the_same_and_knows_its_group() -> None:  # B-14
    made = plan(checks(auto_create=False), "%RETRY%readers")
    assert (made.queue_limit, made.retry_group) == (1, "readers")


@pytest.mark.parametrize("topic", ["", " ", "a.b", "a/b", "ü", "x" * 128])
def test_an_illegal_topic_is_refused_by_29_and_in_4_9_by_1(topic: str) -> None:  # B-110, B-111
    assert refusal(checks(), topic) == 29
    assert refusal(checks(invalid_parameter_code=1), topic) == 1


def test_retry_topics_may_be_longer_in_5_x() -> None:  # B-110, B-111
    long_name = "%RETRY%" + "x" * 200
    assert plan(checks(), long_name).retry_group == "x" * 200
    assert plan(checks(), "%RETRY%" + "x" * 248).retry_group == "x" * 248
    assert refusal(checks(), "%RETRY%" + "x" * 249) == 29
    old = checks(max_retry_topic_chars=127, invalid_parameter_code=1)
    assert refusal(old, long_name) == 1


@pytest.mark.parametrize(
    "topic",
    [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    ],
)
def test_the_brokers_own_topics_are_forbidden(topic: str) -> None:  # E-70
    assert refusal(checks(), topic) == ResponseCode.NO_PERMISSION


def test_a_topic_without_its_write_bit_takes_messages_all_the_same() -> None:  # B-17, T-11
    read_only = TopicConfig(topic_name="orders", read_queue_nums=4, write_queue_nums=4, perm=4)
    assert plan(checks(read_only)).queue_limit == 4


def test_a_broker_that_may_not_be_written_refuses_order_topics_only() -> None:  # B-110, B-111
    ordered = TopicConfig(topic_name="ordered", order=True)
    plain = TopicConfig(topic_name="plain")
    sends = checks(ordered, plain, broker_permission=lambda: 4)
    assert refusal(sends, "ordered") == ResponseCode.NO_PERMISSION
    assert plan(sends, "plain").queue_limit == 16


def test_a_queue_id_is_legal_below_the_larger_of_both_numbers() -> None:  # B-110, B-111
    topic = TopicConfig(topic_name="orders", read_queue_nums=2, write_queue_nums=6)
    made = plan(checks(topic))
    assert (made.queue_limit, made.write_queue_nums) == (6, 6)
    assert made.queue_of(1) == 1
    assert {made.queue_of(0) for _ in range(50)} == {0}
    assert SendPlan("none to write", 2, 0).queue_of(-1) == 0
    assert {made.queue_of(-1) for _ in range(200)} == set(range(6))


def test_a_plan_is_kept_until_its_topic_changes() -> None:
    table = TopicConfigManager("broker-a", "DefaultCluster")
    sends = SendChecks(table, broker_name="broker-a")
    assert plan(sends) is plan(sends)
    table.put(TopicConfig(topic_name="orders"), NOW_MS)
    assert plan(sends).queue_limit == 16


def test_plans_are_made_anew_when_the_broker_may_not_be_written_any_more() -> None:  # B-110
    permission = [6]
    ordered = TopicConfig(topic_name="ordered", order=True)
    sends = checks(ordered, broker_permission=lambda: permission[0])
    plan(sends, "ordered")
    permission[0] = 4
    sends.permission_changed()
    assert refusal(sends, "ordered") == ResponseCode.NO_PERMISSION


def test_a_topic_is_made_for_a_unit_only_when_its_sender_says_so() -> None:
    table = TopicConfigManager("broker-a", "DefaultCluster")
    sends = SendChecks(table, broker_name="broker-a")
    plan(sends)
    sends.plan("of-a-unit", "TBW102", 4, now_ms=NOW_MS, unit_mode=True)
    flags = [
        config.topic_sys_flag for name in ("orders", "of-a-unit") if (config := table.get(name))
    ]
    assert flags == [0, 1]
