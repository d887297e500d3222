"""How many half messages of each topic are open; a figure for tools (X-12, X-50)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pocketmq.broker.stats.meters import Meters
from pocketmq.broker.tables.topic_counts import TopicCount, TopicCounts
from pocketmq.operation.metrics import COMMITS, FINISH_LATENCY, ROLLBACKS
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import BodyStruct


class TransactionMetrics(BodyStruct, kw_only=True, omit_defaults=False):
    """`config/transactionMetrics`: open half messages by real topic."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    transaction_count: dict[str, TopicCount] = msgspec.field(default_factory=dict)


class TransactionCounts(TopicCounts):
    """Counts by real topic: one more for each half message, one less when it is decided.

    Args:
        meters: count what is decided.
    """

    def __init__(self, meters: Meters) -> None:
        super().__init__()
        self._meters = meters

    def committed(self, topic: str, ages_ms: Sequence[int], now_ms: int) -> None:
        """Half messages of this age were committed."""
        self.change(topic, -len(ages_ms), now_ms)
        self._meters.add(COMMITS, topic, count=len(ages_ms))
        for age_ms in ages_ms:
            self._meters.note(FINISH_LATENCY, max(0, age_ms) // 1000, topic)

    def rolled_back(self, topic: str, now_ms: int) -> None:
        """A half message was rolled back."""
        self.change(topic, -1, now_ms)
        self._meters.add(ROLLBACKS, topic)

    def load(self, stored: TransactionMetrics) -> None:
        """Take over what the file holds."""
        self.restore(stored.transaction_count, stored.data_version)

    def wrapper(self) -> TransactionMetrics:
        """As they are stored."""
        return TransactionMetrics(data_version=self.version, transaction_count=self.table())
