"""Who subscribes by an expression, as `config/consumerFilter.json` keeps it (Q-30 to Q-33).

RocketMQ answers pulls that carry no subscription from this file. Here heartbeats are enough, and
the file is kept for a broker of RocketMQ that takes the store over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from pocketmq.broker.groups.consumers import ConsumerGroupInfo
from pocketmq.broker.kept_filters.bloom import BITS, HASHES, bit_positions
from pocketmq.broker.tables.unsaved import Unsaved
from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.messages.subscription import TAG, SubscriptionData
from pocketmq.protocol.scalars import Int32, Int64

KEPT_MS: Final = 24 * 3_600_000
"""So long after its group went, an entry is kept (`filterDataCleanTimeSpan`)."""

GONE_BEFORE_LOAD_MS: Final = 30_000
"""Whoever was there when the file was written, went so long before it is read."""


class BloomFilterData(BodyStruct, kw_only=True, omit_defaults=False):
    """The bits of one entry."""

    bit_num: Int32 = BITS
    bit_pos: list[Int32] = msgspec.field(default_factory=list)


class FilterEntry(BodyStruct, kw_only=True, omit_defaults=False):
    """One group's expression for one topic."""

    consumer_group: str = ""
    topic: str = ""
    expression: str = ""
    expression_type: str = ""
    born_time: Int64 = 0
    dead_time: Int64 = 0
    client_version: Int64 = 0
    """Of the subscription: when the client made it, epoch ms."""
    bloom_filter_data: BloomFilterData = msgspec.field(default_factory=BloomFilterData)
    dead: bool = False
    """Nobody of the group is there; RocketMQ works it out from the two times."""


class FiltersOfTopic(BodyStruct, kw_only=True, omit_defaults=False):
    """All groups with an expression for a topic."""

    topic: str = ""
    group_filter_data: dict[str, FilterEntry] = msgspec.field(default_factory=dict)


class ConsumerFilterFile(BodyStruct, kw_only=True, omit_defaults=False):
    """`consumerFilter.json`."""

    filter_data_by_topic: dict[str, FiltersOfTopic] = msgspec.field(default_factory=dict)


class ConsumerFilters:
    """(topic, group) -> its entry.

    Args:
        understands: whether a subscription's expression can be compiled; others are not entered.
    """

    def __init__(self, understands: Callable[[SubscriptionData], bool]) -> None:
        self.unsaved = Unsaved()
        self._understands = understands
        self._entries: dict[tuple[str, str], FilterEntry] = {}
        self._wrong: dict[tuple[str, str], SubscriptionData] = {}
        """Subscriptions of present groups that were not understood: they are judged once."""

    def look(self, groups: Iterable[ConsumerGroupInfo], now_ms: int) -> None:
        """Enter what members subscribe to now; who is gone is dead, and later forgotten (Q-31)."""
        alive = set()
        for info in groups:
            for subscription in info.subscriptions.values():
                if subscription.expression_type not in (TAG, "", None) and subscription.sub_string:
                    alive.add((subscription.topic, info.group))
                    self._register(info.group, subscription, now_ms)
        for key, entry in list(self._entries.items()):
            if entry.dead and now_ms - entry.dead_time >= KEPT_MS:
                del self._entries[key]
                self.unsaved.note()
            elif key not in alive and not entry.dead:
                # Never earlier than its birth, even if the clock was set back.
                entry.dead_time, entry.dead = max(now_ms, entry.born_time), True
                self.unsaved.note()
        for key in self._wrong.keys() - alive:
            del self._wrong[key]

    def _register(self, group: str, subscription: SubscriptionData, now_ms: int) -> None:
        key = (subscription.topic, group)
        old = self._entries.get(key)
        version = subscription.sub_version
        if old is not None and not old.dead and version <= old.client_version:
            return
        # Rejected before: parse it again only when it changes.
        if subscription == self._wrong.get(key):
            return
        if not self._understands(subscription):
            self._wrong[key] = subscription
            return
        same = old is not None and (old.expression, old.expression_type) == (
            subscription.sub_string,
            subscription.expression_type,
        )
        # The expression is the same: keep the entry and its age.
        if old is not None and same:
            old.client_version, old.dead_time, old.dead = version, 0, False
        else:
            self._entries[key] = FilterEntry(
                consumer_group=group,
                topic=subscription.topic,
                expression=subscription.sub_string,
                expression_type=subscription.expression_type or "",
                born_time=now_ms,
                client_version=version,
                bloom_filter_data=BloomFilterData(bit_pos=bit_positions(group, subscription.topic)),
            )
        self.unsaved.note()

    def load(self, stored: ConsumerFilterFile, now_ms: int) -> None:
        """Take over what the file holds; nobody is there yet."""
        for topic, groups in stored.filter_data_by_topic.items():
            for group, entry in groups.group_filter_data.items():
                bloom = entry.bloom_filter_data
                if (bloom.bit_num, len(bloom.bit_pos)) != (BITS, HASHES):
                    entry.bloom_filter_data = BloomFilterData(bit_pos=bit_positions(group, topic))
                if not entry.dead_time:
                    entry.dead_time = max(entry.born_time, now_ms - GONE_BEFORE_LOAD_MS)
                entry.dead = entry.dead_time >= entry.born_time
                self._entries[topic, group] = entry

    def wrapper(self) -> ConsumerFilterFile:
        """As they are stored."""
        file = ConsumerFilterFile()
        for (topic, group), entry in self._entries.items():
            of_topic = file.filter_data_by_topic.setdefault(topic, FiltersOfTopic(topic=topic))
            of_topic.group_filter_data[group] = entry
        return file

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted."""
        for key in [key for key in self._entries if key[0] == topic]:
            del self._entries[key]
            self.unsaved.note()
