"""Which pops read the queues of a topic by priority, the highest first (V-3)."""

from __future__ import annotations

from pocketmq.broker.attributes import PRIORITY, PRIORITY_FACTOR
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.scalars import MESSAGE_TYPE


class Priorities:
    """Answers whether a pop reads by priority.

    Args:
        topics: their message types.
        groups: the share of their pops that does.
        enabled: whether the profile has priority messages.
    """

    def __init__(
        self, topics: TopicConfigManager, groups: SubscriptionGroupManager, *, enabled: bool
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._enabled = enabled

    def hold(self, group: str, topic: str, lot: int) -> bool:
        """Whether a pop with this lot, 0 to 99, reads queue after queue by priority."""
        if not self._enabled:
            return False
        # Only in priority topics does the order of queues mean something (V-3).
        config = self._topics.get(topic)
        if config is None or config.attributes.get(MESSAGE_TYPE) != PRIORITY:
            return False
        known = self._groups.get(group)
        factor = "100" if known is None else known.attributes.get(PRIORITY_FACTOR, "100")
        # Treat text that is no number as 100.
        return lot < (int(factor) if factor.isdecimal() else 100)
