"""What a message counts as, and what is counted of it."""

from __future__ import annotations

import pytest

from pocketmq.broker.stats.message_type import MessageType, type_of
from pocketmq.broker.stats.meters import MAX_SERIES, Meters
from pocketmq.broker.stats.traffic import Sent, size_class
from pocketmq.operation.metrics import (
    COMMITS,
    FINISH_LATENCY,
    POP_REVIVE_READ,
    POP_SCAN_TIME,
    SENT_TO_DLQ,
    TIMER_ENQUEUED,
)


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, MessageType.NORMAL),
        ({"KEYS": "k", "TRAN_MSG": "false"}, MessageType.NORMAL),
        ({"__SHARDINGKEY": "17"}, MessageType.FIFO),
        ({"DELAY": "3"}, MessageType.DELAY),
        ({"TIMER_DELAY_SEC": "3"}, MessageType.DELAY),
        ({"TIMER_DELAY_MS": "3"}, MessageType.DELAY),
        ({"TIMER_DELIVER_MS": "3"}, MessageType.DELAY),
        ({"__STARTDELIVERTIME": "3"}, MessageType.DELAY),
        ({"DELAY": "3", "__SHARDINGKEY": "17"}, MessageType.FIFO),
        ({"TRAN_MSG": "True", "__SHARDINGKEY": "17", "DELAY": "1"}, MessageType.TRANSACTION),
    ],
)
def test_the_type_is_the_first_that_fits(properties: dict[str, str], kind: MessageType) -> None:
    """RocketMQ's order: BrokerMetricsManager.getMessageType."""
    assert type_of(properties) is kind


def test_a_size_belongs_to_the_bucket_whose_bound_it_does_not_pass() -> None:
    places = {size: size_class(size)[0] for size in (91, 1024, 1025, 4096, 4097, 1 << 22, 1 << 23)}
    assert list(places.values()) == [0, 0, 1, 1, 2, 5, 6]
    for size, place in places.items():
        _, floor, ceiling = size_class(size)
        assert floor < size <= ceiling
        assert size_class(ceiling)[0] == place


def test_sends_are_counted_by_type_and_class_of_size() -> None:
    sent = Sent()
    sent.note(MessageType.FIFO, 1, 2, 3000)
    sent.note(MessageType.FIFO, 0, 1, 100)
    assert list(sent.rows()) == [(MessageType.FIFO, 3, 3100, [1, 2, 0, 0, 0, 0, 0])]


def test_what_is_counted_goes_with_its_topic_or_group() -> None:
    meters = Meters()
    meters.popped_out("orders", "billing", 2, 200, retry=True)
    meters.popped_out("orders", "billing", 1, 100, retry=True)
    meters.add(SENT_TO_DLQ, "billing", "orders")
    meters.add(COMMITS, "orders", count=2)
    meters.note(FINISH_LATENCY, 61, "orders")
    meters.add(TIMER_ENQUEUED, "orders")
    meters.add(POP_REVIVE_READ, "readers", "orders", "0", "CK")
    meters.note(POP_SCAN_TIME, 1)
    assert meters.popped == {("orders", "billing", True): (3, 300)}
    assert meters.distributions[FINISH_LATENCY]["orders",].counts == [0, 0, 1, 0, 0, 0, 0]
    meters.forget_group("billing")
    assert (meters.popped, meters.counts[SENT_TO_DLQ]) == ({}, {})
    meters.forget_topic("orders")
    assert not any(meters.counts.values())
    assert not meters.distributions[FINISH_LATENCY]


def test_what_others_counted_stays() -> None:
    meters = Meters()
    for topic, group in (("orders", "billing"), ("bills", "billing"), ("orders", "mail")):
        meters.popped_out(topic, group, 1, 100, retry=False)
        meters.add(SENT_TO_DLQ, group, topic)
    meters.add(POP_REVIVE_READ, "orders", "bills", "0", "CK")  # a group that has a topic's name
    meters.forget_topic("orders")
    assert meters.popped == {("bills", "billing", False): (1, 100)}
    assert meters.counts[SENT_TO_DLQ] == {("billing", "bills"): 1}
    assert meters.counts[POP_REVIVE_READ] == {("orders", "bills", "0", "CK"): 1}


def test_a_metric_without_the_label_keeps_no_other_from_forgetting() -> None:
    meters = Meters()
    meters.note(POP_SCAN_TIME, 1)
    meters.note(FINISH_LATENCY, 61, "orders")
    meters.forget_topic("orders")
    assert not meters.distributions[FINISH_LATENCY]
    assert meters.distributions[POP_SCAN_TIME]


def test_names_without_end_cost_no_memory_without_end() -> None:
    meters = Meters()
    for number in range(MAX_SERIES + 10):
        meters.add(COMMITS, f"t{number}")
        meters.note(FINISH_LATENCY, 1, f"t{number}")
        meters.popped_out(f"t{number}", "g", 1, 1, retry=False)
    assert len(meters.counts[COMMITS]) == len(meters.distributions[FINISH_LATENCY]) == MAX_SERIES
    assert len(meters.popped) == MAX_SERIES
    meters.add(COMMITS, "t1")  # what is known goes on counting
    assert meters.counts[COMMITS]["t1",] == 2
