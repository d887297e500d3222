"""Filters by tag and by further expression types: in pulls, held pulls and check requests."""

from __future__ import annotations

import tracemalloc

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.filters.message_filters import MessageFilter, MessageFilters
from pocketmq.protocol.bodies.clients import CheckClientRequestBody
from pocketmq.protocol.headers.clients import CheckClientConfigRequestHeader
from pocketmq.protocol.messages.subscription import SubscriptionData, tags_code
from pocketmq.protocol.stored.record import decode_record
from support.broker_rig import BrokerRig, Voice, consumer


def sql(expression: str) -> SubscriptionData:
    return SubscriptionData.parse("orders", expression, 1, expression_type="SQL92")


def by_length(subscription: SubscriptionData) -> MessageFilter:
    """`5`: messages with a body of five bytes."""

    def accept(record: memoryview) -> bool:
        return len(decode_record(record).body) == int(subscription.sub_string)

    return MessageFilter(accept_record=accept)


def test_tags_are_chosen_by_their_hash_and_all_needs_no_look() -> None:
    filters = MessageFilters()
    everything = filters.of(SubscriptionData.parse("orders", "*", 1))
    assert everything == MessageFilter()
    accept = filters.of(SubscriptionData.parse("orders", "A || B", 1)).accept
    assert accept is not None
    assert [accept(tags_code(tag)) for tag in "ABC"] == [True, True, False]


def test_a_type_that_nobody_added_is_refused() -> None:
    filters = MessageFilters()
    with pytest.raises(RequestRefusedError, match="SQL92"):
        filters.of(sql("a > 1"))
    filters.add("SQL92", by_length)
    assert filters.of(sql("5")).accept_record is not None


async def test_a_pull_reads_the_records_that_its_filter_accepts(
    rig: BrokerRig, voice: Voice
) -> None:
    rig.broker.subjects.filters.message_filters.add("SQL92", by_length)
    await voice.heartbeat(consumers=[consumer()])
    for body in (b"no", b"12345", b"67890", b"none", b"abcde"):
        await voice.send(body=body)
    found = await voice.pull(subscription="5", expression_type="SQL92")
    assert found.bodies == [b"12345", b"67890", b"abcde"]
    assert found.header.next_begin_offset == 5
    missed = await voice.pull(subscription="9", expression_type="SQL92")
    assert (missed.code, missed.header.next_begin_offset) == (20, 5)  # PULL_RETRY_IMMEDIATELY


async def test_a_subscription_is_checked_by_the_same_filters(rig: BrokerRig, voice: Voice) -> None:
    body = CheckClientRequestBody(client_id="c", group="readers", subscription_data=sql("5"))
    refused = await voice.ask(CheckClientConfigRequestHeader(), body)
    assert (refused.code, "SQL92" in (refused.remark or "")) == (1, True)
    rig.broker.subjects.filters.message_filters.add("SQL92", by_length)
    assert (await voice.ask(CheckClientConfigRequestHeader(), body)).code == 0


def test_kept_expressions_take_a_mebibyte_and_long_ones_are_not_kept() -> None:
    filters = MessageFilters()
    tracemalloc.start()
    try:
        for number in range(1_500):
            tags = "||".join(f"{number:x}{tag:x}" for tag in range(100))[:512]
            filters.parse("orders", tags, 0, None)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < filters.kept_bytes <= 1024 * 1024
    assert 0.5 * taken < filters.kept_bytes < 2 * taken
    kept = filters.kept_bytes
    filters.parse("orders", "a" * 513, 0, None)
    assert filters.kept_bytes == kept
