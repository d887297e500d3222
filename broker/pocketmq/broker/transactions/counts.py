"""How many half messages of each topic are open; a figure for tools (X-12, X-50)."""

from __future__ import annotations

import msgspec

from pocketmq.broker.tables.topic_counts import TopicCount, TopicCounts
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import BodyStruct


class TransactionMetrics(BodyStruct, kw_only=True, omit_defaults=False):
    """`config/transactionMetrics`: open half messages by real topic."""

    data_version: DataVersion = msgspec.field(default_factory=DataVersion)
    transaction_count: dict[str, TopicCount] = msgspec.field(default_factory=dict)


class TransactionCounts(TopicCounts):
    """Counts by real topic: one more for each half message, one less when it is decided."""

    def load(self, stored: TransactionMetrics) -> None:
        """Take over what the file holds."""
        self.restore(stored.transaction_count, stored.data_version)

    def wrapper(self) -> TransactionMetrics:
        """As they are stored."""
        return TransactionMetrics(data_version=self.version, transaction_count=self.table())
