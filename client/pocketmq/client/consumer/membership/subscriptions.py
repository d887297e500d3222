"""What a consumer subscribes to: topic -> the tags that it wants (C-15, C-27, C-41)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.subscription import TAG, SubscriptionData


class Subscriptions:
    """The subscriptions of one consumer; its parts share this object.

    Args:
        time_ms: The moment that becomes a subscription's version; brokers keep the newest.
    """

    def __init__(self, time_ms: Callable[[], int]) -> None:
        self._by_topic: dict[str, SubscriptionData] = {}
        self._quiet: set[str] = set()
        self.by_topic: Mapping[str, SubscriptionData] = self._by_topic
        """Topic -> what is wanted of it."""
        self._time_ms = time_ms

    def __iter__(self) -> Iterator[SubscriptionData]:
        return iter(list(self._by_topic.values()))

    @property
    def announced(self) -> list[SubscriptionData]:
        """What heartbeats say: all but what was set by `set_quietly`."""
        return [each for topic, each in self._by_topic.items() if topic not in self._quiet]

    @property
    def topics(self) -> list[str]:
        """What is consumed, or followed by `set_quietly`."""
        return list(self._by_topic)

    def set(self, topic: str, expression: str, *, expression_type: str = TAG) -> None:
        """Subscribe, in place of what was wanted of the topic before.

        Raises:
            SubscriptionError: the expression names nothing.
        """
        self._by_topic[topic] = SubscriptionData.parse(
            topic, expression, self._time_ms(), expression_type=expression_type, refuse_blanks=True
        )
        # Last: a wrong expression changes nothing.
        self._quiet.discard(topic)

    def set_quietly(self, subscription: SubscriptionData) -> None:
        """Keep the topic's routes without telling brokers of it, unless it is subscribed already.

        Pulls carry the subscription themselves (L-2, L-3). In a heartbeat it would replace what
        other members of the group want of the topic (C-27).
        """
        if subscription.topic not in self._by_topic:
            self._quiet.add(subscription.topic)
            self._by_topic[subscription.topic] = subscription

    def remove(self, topic: str) -> None:
        """Unsubscribe; harmless when the topic is not subscribed."""
        self._quiet.discard(topic)
        self._by_topic.pop(topic, None)

    def renew(self, topic: str) -> None:
        """Give a topic's subscription a new version, so that brokers take it again (C-27)."""
        old = self._by_topic.get(topic)
        if old is not None:
            self.set(topic, old.sub_string, expression_type=old.expression_type)

    def wanted(self, topic: str, messages: list[MessageExt]) -> list[MessageExt]:
        """Only messages whose tag is wanted: the broker compared hashes only (C-41, B-57)."""
        subscription = self._by_topic.get(topic)
        if subscription is None or not subscription.tags_set:
            return messages
        return [message for message in messages if subscription.matches_tag(message.tags)]
