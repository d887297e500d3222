"""AttributeRules: which attributes topics and groups may have."""

from __future__ import annotations

import pytest

from pocketmq.broker.attributes import AttributeRules, group_attributes, topic_attributes
from pocketmq.broker.errors import RequestRefusedError


def refusal(rules: AttributeRules, change: str) -> str:
    with pytest.raises(RequestRefusedError) as caught:
        rules.changed({}, [change])
    assert caught.value.code == 17
    return caught.value.remark


def test_attributes_are_added_and_taken_away() -> None:
    rules = topic_attributes(priorities=True, code=17)
    found = rules.changed({"message.type": "FIFO"}, ["+cleanup.policy=DELETE", "-message.type"])
    assert found == {"cleanup.policy": "DELETE"}
    assert rules.changed({}, ["-message.type"]) == {}


def test_an_unknown_attribute_is_refused_with_those_that_are_known() -> None:
    rules = topic_attributes(priorities=True, code=17)
    assert "known are message.type, queue.type, cleanup.policy" in refusal(rules, "+x=y")
    assert "known are none" in refusal(group_attributes(priorities=False, code=17), "+x=y")
    assert "'message.type=FIFO' is not understood" in refusal(rules, "message.type=FIFO")


def test_priorities_are_a_type_only_where_the_release_has_them() -> None:  # V-1
    rules = topic_attributes(priorities=True, code=17)
    assert rules.changed({}, ["+message.type=PRIORITY"]) == {"message.type": "PRIORITY"}
    assert "PRIORITY" in refusal(
        topic_attributes(priorities=False, code=17), "+message.type=PRIORITY"
    )


def test_a_factor_is_a_number_from_0_to_100() -> None:  # V-1
    rules = group_attributes(priorities=True, code=17)
    [key] = rules._values
    for value in ("0", "100", "000000000001"):
        assert rules.changed({}, [f"+{key}={value}"]) == {key: value}
    for value in ("101", "-1", "x", "", "\u0663"):
        assert "choose 0 to 100" in refusal(rules, f"+{key}={value}")
