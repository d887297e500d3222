"""Options of a lite pull consumer besides its group and strategy (L-1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pocketmq.client.config import ClientOptions
from pocketmq.client.consumer.settings import HALF_AN_HOUR_MS
from pocketmq.client.heartbeat import ConsumeFromWhere
from pocketmq.client.pulling.pull_plan import CacheLimits

MIN_AUTO_COMMIT_MS: Final = 1_000


class LitePullOptions(ClientOptions, total=False):
    """Keyword arguments of a `LitePullConsumer`; see `LitePullSettings` for each one's meaning."""

    consume_from_where: ConsumeFromWhere
    consume_timestamp_ms: int | None
    pull_batch_size: int
    poll_timeout_ms: int
    auto_commit: bool
    auto_commit_interval_ms: int
    pull_threshold_for_all: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue_mib: int
    consume_max_span: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LitePullSettings:
    """A lite pull consumer's options with their defaults."""

    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    """Where a group begins that has no offset yet (C-33)."""
    consume_timestamp_ms: int | None = None
    """For `TIMESTAMP`: epoch ms; by default half an hour before the consumer was made."""
    pull_batch_size: int = 10
    """Messages per pull."""
    poll_timeout_ms: int = 5_000
    """How long `poll` waits, on the clock."""
    auto_commit: bool = True
    """Commit in `poll`, at most every `auto_commit_interval_ms`."""
    auto_commit_interval_ms: int = 5_000
    """At least 1000; less counts as 1000."""
    pull_threshold_for_all: int = 10_000
    """Messages waiting over all queues above which pulling pauses."""
    pull_threshold_for_queue: int = 1_000
    """The same per queue."""
    pull_threshold_size_for_queue_mib: int = 100
    """The same in MiB."""
    consume_max_span: int = 2_000
    """Largest distance of cached offsets of a queue."""

    @property
    def commit_interval_s(self) -> float:
        """Seconds between two automatic commits."""
        return max(MIN_AUTO_COMMIT_MS, self.auto_commit_interval_ms) / 1000

    @property
    def cache_limits(self) -> CacheLimits:
        """Flow control per queue (C-36)."""
        return CacheLimits(
            threshold_for_queue=self.pull_threshold_for_queue,
            threshold_size_for_queue_mib=self.pull_threshold_size_for_queue_mib,
            max_span=self.consume_max_span,
        )

    def timestamp_ms(self, now_ms: int) -> int:
        """The moment at which `TIMESTAMP` begins, in epoch ms."""
        at_ms = self.consume_timestamp_ms
        return now_ms - HALF_AN_HOUR_MS if at_ms is None else at_ms
