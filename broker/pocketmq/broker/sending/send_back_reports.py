"""Who is told that a message was sent back: the counts, and who watches."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.sending.retry import RetryPlan
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.operation.events.messages import MessageDead, MessageSentBack
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.metrics import SENT_TO_DLQ
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt


class SendBackReports:
    """Tells of send-backs that are stored.

    Args:
        stats: Counts them.
        knows_topic: Whether a topic exists; each that is counted takes some KB until it is deleted.
        events: Told of each.
        broker: Name of the broker.
    """

    def __init__(
        self,
        stats: BrokerStats,
        knows_topic: Callable[[str], bool],
        events: EventSink = NO_EVENTS,
        broker: str = "",
    ) -> None:
        self._stats = stats
        self._knows_topic = knows_topic
        self._events = events
        self._broker = broker

    def stored(self, record: MessageExt, group: str, topic: str, plan: RetryPlan) -> None:
        """The copy of a record is stored in a retry or dead letter topic."""
        origin = record.properties.get(names.RETRY_TOPIC, record.topic)
        # A producer may name any topic in that property, and one may be deleted since.
        counted = origin if self._knows_topic(origin) else record.topic
        self._stats.note_send_back(counted, group)
        if plan.to_dlq:
            self._stats.meters.add(SENT_TO_DLQ, group, counted)
        events = self._events
        if not events.is_on:
            return
        if plan.to_dlq:
            dead = MessageDead(
                *events.stamp(),
                topic=topic,
                broker=self._broker,
                group=group,
                origin_topic=origin,
                attempt=record.reconsume_times + 1,
                physical_offset=record.commit_log_offset,
                unique_key=record.properties.get(names.UNIQ_KEY),
            )
            events.emit(dead)
            return
        sent_back = MessageSentBack(
            *events.stamp(),
            topic=topic,
            broker=self._broker,
            group=group,
            physical_offset=record.commit_log_offset,
            origin_topic=origin,
            attempt=record.reconsume_times + 1,
            delay_level=plan.delay_level,
            unique_key=record.properties.get(names.UNIQ_KEY),
        )
        events.emit(sent_back)
