"""Plain sends to `%RETRY%` topics: consumers whose send-back failed, and orderly ones (B-86)."""

from __future__ import annotations

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.locks.queue_locks import RebalanceLockManager
from pocketmq.broker.sending.retry import max_reconsume_times, resend_goes_to_dlq
from pocketmq.broker.stats.meters import Meters
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.operation.events.messages import MessageDead
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.metrics import SENT_TO_DLQ
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.validation import dlq_topic, retry_topic
from pocketmq.runtime.profile.broker import BrokerProfile


class Resends:
    """Decides which of them end in the dead letter topic.

    Args:
        topics: makes `%DLQ%` topics.
        groups: limits of retries.
        locks: groups that consume in order.
        profile: when a resend is given up.
        meters: count those that are.
        events: told of those that are.
        broker: name of the broker.
    """

    def __init__(
        self,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        locks: RebalanceLockManager,
        profile: BrokerProfile,
        meters: Meters,
        *,
        events: EventSink = NO_EVENTS,
        broker: str = "",
    ) -> None:
        self._events = events
        self._broker = broker
        self._topics = topics
        self._groups = groups
        self._locks = locks
        self._profile = profile
        self._meters = meters

    def is_given_up(
        self,
        group: str,
        reconsume_times: int,
        max_times: int | None,
        version: int,
        *,
        now_ms: int,
        now: float,
    ) -> bool:
        """Whether a send to the group's retry topic ends in its DLQ.

        Args:
            group: whose retry topic it is.
            reconsume_times: from the send's header.
            max_times: the sender's own limit, from the same.
            version: the sender's version; only newer ones have a limit.
            now_ms: the time, in epoch ms.
            now: the time, in monotonic seconds.

        Raises:
            RequestRefusedError: SUBSCRIPTION_GROUP_NOT_EXIST (26).
        """
        # The group of the retry topic may be created like any other (B-40).
        config = self._groups.find_or_create(group, now_ms)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group {group} does not exist, so the group has no retry topic",
            )
        profile = self._profile
        is_dead = resend_goes_to_dlq(
            reconsume_times,
            max_reconsume_times(config, max_times, version),
            when_equal=profile.dlq_when_retries_equal_max,
            # An ordered group never retries in another topic, so it gives up at once (B-86).
            holds_locks=profile.dlq_when_group_holds_locks
            and self._locks.holds_live_lock(group, now),
        )
        if is_dead:
            self._meters.add(SENT_TO_DLQ, group, retry_topic(group))
        if is_dead and self._events.is_on:
            dead = MessageDead(
                *self._events.stamp(),
                topic=dlq_topic(group),
                broker=self._broker,
                group=group,
                origin_topic=retry_topic(group),
                attempt=reconsume_times,
            )
            self._events.emit(dead)
        return is_dead

    def dlq_topic(self, group: str, now_ms: int) -> TopicConfig:
        """The group's `%DLQ%` topic, made if it is missing."""
        return self._topics.ensure_dlq_topic(group, now_ms=now_ms)
