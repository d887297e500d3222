"""Options of a push consumer besides its group, strategy and listener."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from pocketmq.client.config import ClientOptions
from pocketmq.client.heartbeat import ConsumeFromWhere, MessageModel
from pocketmq.client.pulling.pull_plan import CacheLimits
from pocketmq.runtime.errors import ConfigError

HALF_AN_HOUR_MS = 30 * 60 * 1000
DEFAULT_MAX_RECONSUME_TIMES = 16
UNLIMITED_RECONSUME_TIMES = 2**31 - 1


class PushOptions(ClientOptions, total=False):
    """Keyword arguments of a `PushConsumer`; see `PushSettings` for each one's meaning."""

    message_model: MessageModel
    consume_from_where: ConsumeFromWhere
    consume_timestamp: str | int | None
    consume_thread_max: int
    consume_message_batch_max_size: int
    pull_batch_size: int
    pull_interval_ms: int
    pull_threshold_for_queue: int
    pull_threshold_size_for_queue_mib: int
    pull_threshold_for_topic: int
    pull_threshold_size_for_topic_mib: int
    consume_concurrently_max_span: int
    max_reconsume_times: int
    consume_timeout_min: float
    suspend_current_queue_time_ms: int
    post_subscription_when_pull: bool
    await_termination_ms_when_shutdown: int
    local_offset_store_dir: Path | None
    client_rebalance: bool
    pop_invisible_time_ms: int
    pop_batch_nums: int
    pop_threshold_for_queue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PushSettings:
    """A push consumer's options with their defaults and ranges.

    Raises:
        ConfigError: a value is out of its range.
    """

    message_model: MessageModel = MessageModel.CLUSTERING
    """Clustering or broadcasting."""
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    """Where a group begins that has no offset yet (C-33)."""
    consume_timestamp: str | int | None = None
    """For `TIMESTAMP`: `yyyyMMddHHmmss` in local time, or epoch ms; by default half an hour ago."""
    consume_thread_max: int = 20
    """Listener calls at the same time (C-54)."""
    consume_message_batch_max_size: int = 1
    """Messages per call of a batch or orderly listener (C-54)."""
    pull_batch_size: int = 32
    """Messages per pull (C-37)."""
    pull_interval_ms: int = 0
    """Pause after a pull that found something (C-41)."""
    pull_threshold_for_queue: int = 1_000
    """Cached messages per queue above which pulling pauses (C-36)."""
    pull_threshold_size_for_queue_mib: int = 100
    """The same in MiB."""
    pull_threshold_for_topic: int = -1
    """Cached messages per topic, divided by the owned queues; -1 for off (C-27)."""
    pull_threshold_size_for_topic_mib: int = -1
    """The same in MiB."""
    consume_concurrently_max_span: int = 2_000
    """Largest distance of cached offsets, so that one slow message stops the queue (C-36)."""
    max_reconsume_times: int = -1
    """Deliveries after the first; -1 for 16 (concurrent) or without end (orderly, C-60)."""
    consume_timeout_min: float = 15
    """Minutes after which a message at the head of its queue is sent back (C-53)."""
    suspend_current_queue_time_ms: int = 1_000
    """Pause of an orderly queue after a failure, clamped to 10-30000 (C-61)."""
    post_subscription_when_pull: bool = False
    """Send the subscription with every pull, not only with heartbeats (C-37)."""
    await_termination_ms_when_shutdown: int = 0
    """Real ms that running listeners have to end by themselves (C-71)."""
    local_offset_store_dir: Path | None = None
    """Where broadcasting consumers keep offsets; by default `~/.rocketmq_offsets` (C-66)."""

    client_rebalance: bool = True
    """False: brokers share the queues out and say whether they are pulled or popped (K-165).
    Orderly and broadcasting consumers share out by themselves in any case, as in RocketMQ."""
    pop_invisible_time_ms: int = 60_000
    """How long a popped message is hidden from other members; its listener has to end by then."""
    pop_batch_nums: int = 32
    """Messages per pop (K-166)."""
    pop_threshold_for_queue: int = 96
    """Messages popped and not settled, per assigned queue, above which popping pauses (K-167)."""

    RANGES: ClassVar[dict[str, tuple[int, int]]] = {
        "consume_thread_max": (1, 1_000),
        "consume_message_batch_max_size": (1, 1_024),
        "pull_batch_size": (1, 1_024),
        "pull_interval_ms": (0, 65_535),
        "pull_threshold_for_queue": (1, 65_535),
        "pull_threshold_size_for_queue_mib": (1, 1_024),
        "pull_threshold_for_topic": (1, 6_553_500),
        "pull_threshold_size_for_topic_mib": (1, 102_400),
        "consume_concurrently_max_span": (1, 65_535),
        "pop_invisible_time_ms": (5_000, 300_000),
        "pop_batch_nums": (1, 32),
        "pop_threshold_for_queue": (1, 65_535),
    }
    MAY_BE_OFF: ClassVar[frozenset[str]] = frozenset(
        {"pull_threshold_for_topic", "pull_threshold_size_for_topic_mib"}
    )

    def __post_init__(self) -> None:
        for name, (least, most) in self.RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most and not (value == -1 and name in self.MAY_BE_OFF):
                raise ConfigError(
                    name, f"{value} is not between {least} and {most}, the limits of this option"
                )

    @property
    def is_broadcasting(self) -> bool:
        """Whether every member gets every message."""
        return self.message_model is MessageModel.BROADCASTING

    def consume_timestamp_ms(self, now_ms: int) -> int:
        """The moment at which `TIMESTAMP` begins, in epoch ms.

        Raises:
            ConfigError: the text is no time.
        """
        value = self.consume_timestamp
        if value is None:
            return now_ms - HALF_AN_HOUR_MS
        if isinstance(value, int):
            return value
        try:
            moment = datetime.strptime(value, "%Y%m%d%H%M%S")  # noqa: DTZ007 - local by definition
        except ValueError as exc:
            raise ConfigError(
                "consume_timestamp", f"{value!r} is no time", advice="write it as 20131231235959"
            ) from exc
        return round(moment.timestamp() * 1000)

    def batch_max_size(self, *, one_by_one: bool) -> int:
        """Messages per call of the listener (C-54)."""
        return 1 if one_by_one else self.consume_message_batch_max_size

    def max_retries(self, *, orderly: bool) -> int:
        """`max_reconsume_times` with its default filled in."""
        if self.max_reconsume_times != -1:
            return self.max_reconsume_times
        return UNLIMITED_RECONSUME_TIMES if orderly else DEFAULT_MAX_RECONSUME_TIMES

    def cache_limits(self, owned_queues: int) -> CacheLimits:
        """Flow control per queue; limits per topic are shared out over the owned queues (C-27)."""
        share = max(1, owned_queues)
        count, mib = self.pull_threshold_for_topic, self.pull_threshold_size_for_topic_mib
        return CacheLimits(
            threshold_for_queue=(
                self.pull_threshold_for_queue if count == -1 else max(1, count // share)
            ),
            threshold_size_for_queue_mib=(
                self.pull_threshold_size_for_queue_mib if mib == -1 else max(1, mib // share)
            ),
            max_span=self.consume_concurrently_max_span,
        )
