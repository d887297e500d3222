"""What a field is that a peer leaves out: what it is in a new object of RocketMQ's class."""

from __future__ import annotations

import msgspec
import pytest

from support.declared import BODIES, HEADERS

STARTS_AS: dict[tuple[str, str], object] = {
    ("SubscriptionGroupConfig", "consumeEnable"): True,
    ("SubscriptionGroupConfig", "consumeFromMinEnable"): True,
    ("SubscriptionGroupConfig", "consumeBroadcastEnable"): True,
    ("SubscriptionGroupConfig", "notifyConsumerIdsChangedEnable"): True,
    ("SubscriptionGroupConfig", "retryQueueNums"): 1,
    ("SubscriptionGroupConfig", "retryMaxTimes"): 16,
    ("SubscriptionGroupConfig", "whichBrokerWhenConsumeSlowly"): 1,
    ("SubscriptionGroupConfig", "consumeTimeoutMinute"): 15,
    ("TopicConfig", "readQueueNums"): 16,
    ("TopicConfig", "writeQueueNums"): 16,
    ("TopicConfig", "perm"): 6,
    ("ConsumeMessageDirectlyResult", "autoCommit"): True,
    ("ElectMasterRequestHeader", "brokerId"): -1,
    ("GetMaxOffsetRequestHeader", "committed"): True,
    ("ResetOffsetRequestHeader", "isForce"): True,
    ("ResetOffsetRequestHeader", "queueId"): -1,
    ("ResetConsumerClientOffsetRequestHeader", "isForce"): True,
    ("ResetConsumerClientOffsetRequestHeader", "queueId"): -1,
}
"""(class, field) -> the value, where Java's class gives it another than 0 and false."""

CLASSES = sorted({*HEADERS, *BODIES}, key=lambda cls: cls.__name__)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_numbers_and_flags_that_are_left_out_are_those_of_a_new_object(
    cls: type[msgspec.Struct],
) -> None:
    for field in msgspec.structs.fields(cls):
        if isinstance(field.default, bool | int | float):
            nothing = type(field.default)()
            expected = STARTS_AS.get((cls.__name__, field.encode_name), nothing)
            assert field.default == expected, field.name


def test_each_value_belongs_to_a_field() -> None:
    fields = {
        (cls.__name__, field.encode_name)
        for cls in CLASSES
        for field in msgspec.structs.fields(cls)
    }
    assert set(STARTS_AS) <= fields
