"""Every three minutes: stops groups far behind (B-168), and forgets pulls of those that are gone.

Offsets stay, whoever is away for how long (B-36): without one a group that returns would begin at
the end of its queues, and skip what is there.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.overload.overload import groups_far_behind
from pocketmq.broker.store import QueueReads
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()


class GroupCare:
    """Stops groups that read too slowly.

    Args:
        groups: where the right to consume is taken away.
        consumers: subscriptions of connected members.
        offsets: knows who pulls from where.
        reads: the log, and where in it a queue's entry leads.
        clock: stamps changes.
        stop_behind_bytes: groups further behind are stopped, now; None stops nobody.
    """

    def __init__(
        self,
        groups: SubscriptionGroupManager,
        consumers: ConsumerManager,
        offsets: ConsumerOffsetManager,
        reads: QueueReads,
        clock: Clock,
        *,
        stop_behind_bytes: Callable[[], int | None],
    ) -> None:
        self._groups = groups
        self._consumers = consumers
        self._offsets = offsets
        self._reads = reads
        self._clock = clock
        self._stop_behind_bytes = stop_behind_bytes

    def run(self) -> None:
        """Check all groups."""
        threshold_bytes = self._stop_behind_bytes()
        if threshold_bytes is not None:
            self._stop_slow_groups(threshold_bytes)
        self._offsets.forget_pulls(self._is_subscribed)

    def _is_subscribed(self, group: str, topic: str) -> bool:
        return self._consumers.subscription(group, topic) is not None

    def _stop_slow_groups(self, threshold_bytes: int) -> None:
        behind = groups_far_behind(
            self._offsets.pulls(),
            self._reads.commit_log.max_offset,
            self._reads.physical_offset,
            threshold_bytes,
        )
        for group, lag_bytes in behind.items():
            config = self._groups.get(group)
            if config is not None and config.consume_enable:
                log.warning("group.stopped", group=group, behind_bytes=lag_bytes)
                stopped = msgspec.structs.replace(config, consume_enable=False)
                self._groups.put(stopped, self._clock.time_ms())
