"""AttributeRules: which attributes topics and groups may have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pocketmq.broker.attributes import (
    PRIORITY_FACTOR,
    AttributeRules,
    group_attributes,
    topic_attributes,
)
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.runtime.profile.broker import BROKER_5_3, BROKER_5_5


def refusal(rules: AttributeRules, change: str, current: Mapping[str, str] | None = None) -> str:
    with pytest.raises(RequestRefusedError) as caught:
        rules.changed(current, [change])
    assert caught.value.code == 1  # as the exception is answered that RocketMQ throws
    return caught.value.remark


def test_attributes_are_added_and_taken_away() -> None:
    rules = topic_attributes(BROKER_5_5)
    assert rules.changed({"message.type": "FIFO"}, ["-message.type"]) == {}
    assert rules.changed({}, ["+message.type=FIFO"]) == {"message.type": "FIFO"}


def test_what_is_not_there_cannot_be_taken_away() -> None:
    rules = topic_attributes(BROKER_5_5)
    assert "attribute message.type cannot be deleted" in refusal(rules, "-message.type")
    assert "attribute message.type cannot be deleted" in refusal(rules, "-message.type", {})


def test_queues_and_clean_up_are_chosen_when_a_topic_is_made() -> None:
    rules = topic_attributes(BROKER_5_5)
    assert rules.changed(None, ["+queue.type=SimpleCQ"]) == {"queue.type": "SimpleCQ"}
    assert "can be set only when its topic is created" in refusal(
        rules, "+cleanup.policy=DELETE", {}
    )


def test_an_unknown_attribute_is_refused_with_those_that_are_known() -> None:
    rules = topic_attributes(BROKER_5_5)
    assert "these keys: message.type, queue.type, cleanup.policy" in refusal(rules, "+x=y")
    assert "these keys: none" in refusal(group_attributes(BROKER_5_3), "+x=y")
    assert "'message.type=FIFO' is unknown or has a wrong form" in refusal(
        rules, "message.type=FIFO"
    )


def test_priorities_are_a_type_only_where_the_release_has_them() -> None:  # V-1
    rules = topic_attributes(BROKER_5_5)
    assert rules.changed(None, ["+message.type=PRIORITY"]) == {"message.type": "PRIORITY"}
    assert "PRIORITY" in refusal(topic_attributes(BROKER_5_3), "+message.type=PRIORITY")


def test_a_factor_is_a_number_from_0_to_100() -> None:  # V-1
    rules = group_attributes(BROKER_5_5)
    key = PRIORITY_FACTOR
    for value in ("0", "100", "000000000001"):
        assert rules.changed(None, [f"+{key}={value}"]) == {key: value}
    for value in ("101", "-1", "x", "", "\u0663"):
        assert "a number from 0 to 100" in refusal(rules, f"+{key}={value}")
