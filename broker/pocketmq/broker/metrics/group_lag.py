"""How far groups are behind, as RocketMQ's metrics tell it: lag, in flight, ready, and since when.

RocketMQ tells it of groups with consumers; here groups without any are told too, by their offsets.
A filter is not estimated: messages that it will pass over count until they are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.pop.progress import PopProgress
from pocketmq.broker.store import QueueReads
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.messages.receipts import pop_retry_topic
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.protocol.scalars import Perm

MOST_QUEUES: Final = 4_000
"""Of each up to two records are read, 5 to 11 us each; the broker does nothing else meanwhile."""

POP: Final = "CONSUME_POP"


@dataclass(slots=True)
class GroupLag:
    """One group in one topic, or in its retry topic."""

    group: str
    topic: str
    """The application's, for the retry topic too."""
    is_retry: bool
    lag: int = 0
    lag_since_ms: int = 0
    """When its first message was stored that is not consumed; 0 for none."""
    in_flight: int = 0
    queueing_since_ms: int = 0
    """The same of the first that is not handed out."""
    ready: int = 0

    def add(self, place: _Place) -> None:
        """Count one queue."""
        self.lag += place.lag
        self.lag_since_ms = _earlier(self.lag_since_ms, place.lag_since_ms)
        self.in_flight += place.in_flight
        self.queueing_since_ms = _earlier(self.queueing_since_ms, place.queueing_since_ms)
        self.ready += place.ready


@dataclass(frozen=True, slots=True)
class _Place:
    lag: int
    lag_since_ms: int
    in_flight: int
    queueing_since_ms: int
    ready: int


class LagReader:
    """Reads all managers, changes none.

    Args:
        reads: bounds of queues, and store times.
        topics: queues of topics.
        offsets: progress of groups.
        consumers: who consumes what, and how.
        groups: all that are configured.
        progress: of groups that pop.
    """

    def __init__(
        self,
        reads: QueueReads,
        topics: TopicConfigManager,
        offsets: ConsumerOffsetManager,
        consumers: ConsumerManager,
        groups: SubscriptionGroupManager,
        progress: PopProgress,
    ) -> None:
        self._reads = reads
        self._topics = topics
        self._offsets = offsets
        self._consumers = consumers
        self._groups = groups
        self._progress = progress

    def lags(self) -> Iterator[GroupLag]:
        """Of each group in each of its topics, up to `MOST_QUEUES` together."""
        left = MOST_QUEUES
        for lag, configs, pops in self._wanted():
            left -= sum(config.write_queue_nums for config in configs)
            # Leave out a whole group, not a part of it: half of its lag would look like progress.
            if left < 0:
                return
            for config in configs:
                for queue_id in range(config.write_queue_nums):
                    at = (lag.group, config.topic_name, queue_id)
                    lag.add(self._popped(*at) if pops else self._pulled(*at))
            yield lag

    def _wanted(self) -> Iterator[tuple[GroupLag, Sequence[TopicConfig], bool]]:
        """What is to be told, still without figures; of which topics, and whether it is popped."""
        for group in sorted(self._groups.table):
            info = self._consumers.get(group)
            online = info is not None and bool(info.subscriptions)
            pops = info is not None and info.consume_type == POP
            # The members' subscriptions say what a group reads; without members, its offsets do.
            topics = info.subscriptions if info is not None and online else None
            for topic in sorted(self._offsets.topics_of(group) if topics is None else topics):
                config = self._topics.get(topic)
                if is_retry(topic) or config is None or not config.perm & Perm.RW:
                    continue
                yield GroupLag(group, topic, is_retry=False), [config], pops
                if pops:
                    yield GroupLag(group, topic, is_retry=True), self._retries(group, topic), True

    def _retries(self, group: str, topic: str) -> list[TopicConfig]:
        of_both = (self._topics.get(pop_retry_topic(topic, group, v2=v2)) for v2 in (True, False))
        return [config for config in of_both if config is not None]

    def _pulled(self, group: str, topic: str, queue_id: int) -> _Place:
        end = self._reads.max_offset(topic, queue_id)
        committed = self._offsets.query(group, topic, queue_id)
        begin = end if committed is None else committed
        pulled = max(begin, self._offsets.pulled(group, topic, queue_id))
        return _Place(
            max(0, end - begin),
            self._since_ms(topic, queue_id, begin, end),
            min(pulled, end) - begin if begin < end else 0,
            self._since_ms(topic, queue_id, pulled, end),
            max(0, end - pulled),
        )

    def _popped(self, group: str, topic: str, queue_id: int) -> _Place:
        end = self._reads.max_offset(topic, queue_id)
        committed, key = self._offsets.query(group, topic, queue_id), (group, topic, queue_id)
        begin = end if committed is None else self._progress.begin(key, committed)
        in_flight = self._progress.in_flight(key)
        ready = max(0, end - begin)
        return _Place(
            ready + in_flight,
            self._since_ms(topic, queue_id, max(0, begin - in_flight), end),
            in_flight,
            self._since_ms(topic, queue_id, begin, end),
            ready,
        )

    def _since_ms(self, topic: str, queue_id: int, offset: int, end: int) -> int:
        return max(0, self._reads.store_time(topic, queue_id, offset)) if offset < end else 0


def _earlier(one: int, other: int) -> int:
    return min(one, other) if one and other else one or other
