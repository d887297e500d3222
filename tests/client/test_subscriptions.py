"""What a consumer subscribes to, by itself."""

from __future__ import annotations

import pytest

from pocketmq.client.consumer.membership.subscriptions import Subscriptions
from pocketmq.protocol.errors import SubscriptionError
from pocketmq.protocol.messages.subscription import SQL92, SubscriptionData
from support.messages import pulled_message


def subscriptions() -> Subscriptions:
    """None yet; the first version is 1."""
    versions = iter(range(1, 100))
    return Subscriptions(lambda: next(versions))


def test_a_quiet_topic_takes_no_other_s_place_and_is_told_to_no_broker() -> None:  # L-2
    wanted = subscriptions()
    wanted.set("T", "a")
    for topic in ("T", "U"):
        wanted.set_quietly(SubscriptionData.parse(topic, "*", 9))
    assert [(each.topic, each.sub_string) for each in wanted] == [("T", "a"), ("U", "*")]
    assert [each.topic for each in wanted.announced] == ["T"]


def test_a_quiet_topic_that_is_subscribed_is_told_to_brokers() -> None:
    wanted = subscriptions()
    wanted.set_quietly(SubscriptionData.parse("T", "*", 9))
    with pytest.raises(SubscriptionError):
        wanted.set("T", "||")
    assert wanted.announced == []
    wanted.set("T", "a")
    assert [each.sub_string for each in wanted.announced] == ["a"]
    wanted.remove("T")
    wanted.set_quietly(SubscriptionData.parse("T", "*", 9))
    assert wanted.announced == []


def test_a_topic_can_be_left_whether_it_is_subscribed_or_not() -> None:
    wanted = subscriptions()
    wanted.set("T", "a")
    wanted.set("U", "*")
    wanted.remove("T")
    wanted.remove("T")
    assert wanted.topics == ["U"]


def test_a_renewed_subscription_is_newer_and_wants_the_same() -> None:  # C-27
    wanted = subscriptions()
    wanted.set("T", "a > 1", expression_type=SQL92)
    wanted.renew("T")
    wanted.renew("unknown")
    assert wanted.by_topic == {"T": SubscriptionData.parse("T", "a > 1", 2, expression_type=SQL92)}


def test_tags_are_compared_again_where_any_are_named() -> None:  # C-41
    wanted = subscriptions()
    wanted.set("T", "a || b")
    wanted.set("U", "*")
    messages = [
        pulled_message(offset=at, properties=f"TAGS\x01{tag}\x02" if tag else "")
        for at, tag in enumerate(["a", "c", "", "b"])
    ]
    assert [each.queue_offset for each in wanted.wanted("T", messages)] == [0, 3]
    assert wanted.wanted("U", messages) == messages
    assert wanted.wanted("nobody subscribed", messages) == messages
