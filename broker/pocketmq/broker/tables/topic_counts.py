"""A number for each topic, as RocketMQ's files of timers and transactions keep it (T-115, X-50).

They are shown by tools only, and may be wrong after a kill.
"""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.broker.tables.unsaved import Unsaved
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import BodyStruct
from pocketmq.protocol.scalars import Int64


class TopicCount(BodyStruct, kw_only=True, omit_defaults=False):
    """The number of one topic."""

    count: Int64 = 0
    time_stamp: Int64 = 0
    """When it last changed, epoch ms."""


class TopicCounts:
    """Topic -> number, and the version of the whole."""

    def __init__(self) -> None:
        self.version = DataVersion()
        self.unsaved = Unsaved()
        self._counts: dict[str, TopicCount] = {}

    def change(self, topic: str | None, by: int, now_ms: int) -> None:
        """Add to the topic's number."""
        if not topic:
            return
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = TopicCount()
        count.count += by
        count.time_stamp = now_ms
        self.version = self.version.next_version(now_ms)
        self.unsaved.note()

    @property
    def total(self) -> int:
        """Of all topics together."""
        return sum(count.count for count in self._counts.values())

    def of(self, topic: str) -> int:
        """The topic's number."""
        count = self._counts.get(topic)
        return 0 if count is None else count.count

    def forget(self, topic: str) -> None:
        """The topic was deleted (T-157)."""
        if self._counts.pop(topic, None) is not None:
            self.unsaved.note()

    def restore(self, counts: Mapping[str, TopicCount], version: DataVersion) -> None:
        """Take over what a file holds."""
        self._counts = dict(counts)
        self.version = version

    def table(self) -> dict[str, TopicCount]:
        """Topic -> number, for a file."""
        return dict(self._counts)
