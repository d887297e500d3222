"""What becomes of a message with a delivery time when it is sent (T-105, R-30)."""

from __future__ import annotations

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.broker.timers.rewrite import timer_rewrite
from pocketmq.broker.timers.rules import TimerRules
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import MAX_PROPERTIES_BYTES
from pocketmq.protocol.messages.receipts import RecallHandle
from pocketmq.protocol.messages.validation import TIMER_TOPIC
from support.half_queue import HERE

NOW_MS = 1_700_000_000_500
LATER = {names.TIMER_DELAY_SEC: "2"}
REWRITE = timer_rewrite(TimerRules(), "broker-a")


def sent(topic: str = "orders", uniq_key: str | None = "k") -> StoredMessage:
    return StoredMessage(
        topic=topic, queue_id=3, body=b"", properties=b"", flag=0, sys_flag=0,
        born_timestamp_ms=1, born_host=HERE, store_host=HERE, uniq_key=uniq_key,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name", [names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS]
)
def test_it_waits_and_its_sender_gets_a_handle_to_recall_it(name: str) -> None:
    message = sent()
    properties = {name: {names.TIMER_DELAY_SEC: "2", names.TIMER_DELAY_MS: "2000"}.get(
        name, str(NOW_MS + 2_000)
    )}  # fmt: skip
    assert REWRITE(message, properties, NOW_MS) is True
    assert (message.topic, properties[names.REAL_TOPIC]) == (TIMER_TOPIC, "orders")
    assert message.recall_handle is not None
    handle = RecallHandle.decode(message.recall_handle)
    assert handle == RecallHandle("orders", "broker-a", 1_700_000_002_001, "k")


@pytest.mark.parametrize(
    ("topic", "key"), [("orders", None), ("%RETRY%readers", "k"), ("%RETRY%readers", None)]
)
def test_what_has_no_key_or_is_a_retry_cannot_be_recalled(topic: str, key: str | None) -> None:
    message = sent(topic, key)
    assert REWRITE(message, dict(LATER), NOW_MS) is True
    assert (message.topic, message.recall_handle) == (TIMER_TOPIC, None)


@pytest.mark.parametrize(
    "properties", [{}, {names.TIMER_DELAY_SEC: "0"}, {names.TIMER_DELIVER_MS: "1"}]
)
def test_what_is_due_goes_to_its_own_topic(properties: dict[str, str]) -> None:
    message, before = sent(), dict(properties)
    assert REWRITE(message, properties, NOW_MS) is False
    assert (message.topic, properties, message.recall_handle) == ("orders", before, None)


def test_properties_that_leave_its_delivery_no_room_are_refused() -> None:
    room = MAX_PROPERTIES_BYTES - 200
    assert REWRITE(sent(), LATER | {"a": "x" * (room - 100)}, NOW_MS) is True
    with pytest.raises(RequestRefusedError, match="because its delivery adds more"):
        REWRITE(sent(), LATER | {"a": "x" * room}, NOW_MS)


def test_a_delay_level_goes_before_every_time() -> None:  # B-91
    properties = {
        names.DELAY: "1", names.TIMER_DELAY_SEC: "2", names.TIMER_DELAY_MS: "3",
        names.TIMER_DELIVER_MS: "4", "TAGS": "x",
    }  # fmt: skip
    message = sent()
    assert REWRITE(message, properties, NOW_MS) is False
    assert properties == {names.DELAY: "1", "TAGS": "x"}
    assert message.topic == "orders"
    for level in ("0", "-1", "x"):
        assert REWRITE(sent(), LATER | {names.DELAY: level}, NOW_MS) is True


def test_what_is_in_the_wheel_topic_already_stays_as_it_is() -> None:
    message, properties = sent(TIMER_TOPIC), dict(LATER)
    assert REWRITE(message, properties, NOW_MS) is False
    assert (message.topic, properties) == (TIMER_TOPIC, LATER)
