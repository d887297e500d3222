"""The life of a message, from the copies that brokers stored of it."""

from __future__ import annotations

import pytest

from pocketmq.client import MessageExt, MessageQueue
from pocketmq.cluster.explain.message_life import Life, LifeFacts, life
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
)
from support.messages import pulled_message

LEVELS = (1000, 5000, 10_000)


def copy(topic: str, offset: int = 0, queue: int = 0, times: int = 0, **named: str) -> MessageExt:
    text = "".join(f"{name}\x01{value}\x02" for name, value in named.items())
    return pulled_message(
        topic=topic, queue_id=queue, offset=offset, properties=text, reconsume_times=times
    )


def told(*copies: MessageExt, **facts: object) -> Life:
    return life(LifeFacts("7F01", copies, levels_ms=LEVELS, **facts))  # type: ignore[arg-type]


SENT = copy("orders", 5, TAGS="new")
RETRY_WAITS = copy(SCHEDULE_TOPIC, 1, 2, times=1, REAL_TOPIC="%RETRY%g")
RETRY = copy("%RETRY%g", 3, times=1, ORIGIN_MESSAGE_ID="x")
DEAD = copy("%DLQ%g", 0, times=2, ORIGIN_MESSAGE_ID="x")
GROUPS = {"orders": ("g", "h"), "%RETRY%g": ("g",), "%DLQ%g": ("g",)}
HALF = copy(HALF_TOPIC, 9, REAL_TOPIC="orders", PGROUP="shop")
QUEUE = SENT.queue


def test_each_group_has_a_fate_of_its_own_by_its_offset() -> None:
    found = told(SENT, groups=GROUPS, committed={("g", QUEUE): 6, ("h", QUEUE): 2})
    assert [(each.group, each.state, each.what) for each in found.groups] == [
        ("g", "consumed", "its offset in a/0 is 6"),
        ("h", "waits", "3 messages before it in a/0"),
    ]
    assert found.now == "consumed: 1, waits: 1"
    assert [(step.topic, step.place, step.what) for step in found.steps] == [
        ("orders", "a/0 5", "sent")
    ]


@pytest.mark.parametrize(
    ("copies", "committed", "state", "what"),
    [
        ((SENT, RETRY_WAITS), None, "retries", "waits for its 1st retry, due 10 s after"),
        ((SENT, RETRY_WAITS, RETRY), 3, "waits", "0 messages before it in %RETRY%g a/0"),
        (
            (SENT, RETRY_WAITS, RETRY),
            4,
            "consumed",
            "its offset in %RETRY%g a/0 is 4 after 1 send-back",
        ),
        ((SENT, RETRY, DEAD), None, "dead", "in %DLQ%g after 2 send-backs"),
        ((SENT,), None, "waits", "the group has committed nothing in a/0"),
    ],
)
def test_retries_and_dead_letters_are_followed(
    copies: tuple[MessageExt, ...], committed: int | None, state: str, what: str
) -> None:
    offsets = {} if committed is None else {("g", RETRY.queue): committed}
    fate = next(e for e in told(*copies, groups=GROUPS, committed=offsets).groups if e.group == "g")
    assert (fate.state, fate.what) == (state, what)
    assert fate.sent_back == max(each.reconsume_times for each in copies)


def test_a_dead_letter_that_was_sent_again_counts_by_its_last_copy() -> None:
    again = copy("orders", 8, ORIGIN_MESSAGE_ID="x")
    found = told(SENT, DEAD, again, groups=GROUPS, committed={("g", QUEUE): 9, ("h", QUEUE): 9})
    assert [each.state for each in found.groups] == ["consumed", "consumed"]
    assert found.steps[-1].what == "sent again"


def test_a_tag_that_the_group_does_not_want_is_passed_over() -> None:
    wants = {"h": {"orders": SubscriptionData.parse("orders", "changed", 0)}}
    found = told(SENT, groups=GROUPS, subscriptions=wants, committed={("h", QUEUE): 9})
    assert found.groups[1].state == "passed over"
    assert found.groups[1].what == "h subscribes to changed, and its tag is new"


def test_members_of_a_broadcasting_group_cannot_be_asked() -> None:
    found = told(SENT, groups={"orders": ("g",)}, broadcasting=frozenset({"g"}))
    assert found.groups[0].state == "unknown"


@pytest.mark.parametrize(
    ("copies", "now"),
    [
        ((copy(SCHEDULE_TOPIC, 0, 1, REAL_TOPIC="orders"),), "waits for its time"),
        ((HALF,), "a half message: it waits for the transaction"),
        ((HALF, copy(TRANS_CHECK_MAX_TIME_TOPIC)), "in TRANS_CHECK_MAX_TIME_TOPIC"),
        ((SENT,), "in orders; no group consumes it"),
    ],
)
def test_it_says_where_the_message_is_now(copies: tuple[MessageExt, ...], now: str) -> None:
    assert told(*copies).now.startswith(now)


def test_a_half_message_is_rolled_back_or_committed() -> None:
    assert told(HALF, decided=frozenset({HALF.queue})).now == "rolled back: no consumer gets it"
    found = told(HALF, copy("orders", REAL_TOPIC="orders"), decided=frozenset({HALF.queue}))
    assert found.now == "in orders; no group consumes it"
    assert MessageQueue(HALF_TOPIC, "a", 0) == HALF.queue
