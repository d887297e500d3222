"""Progress of queues and groups, for admin tools (E-29, O-20 to O-23).

GET_TOPIC_STATS_INFO (202), GET_CONSUME_STATS (208), QUERY_TOPIC_CONSUME_BY_WHO (300).
"""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.store import QueueReads
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.clients import GroupList
from pocketmq.protocol.bodies.offsets import (
    ConsumeStats,
    OffsetWrapper,
    TopicOffset,
    TopicStatsTable,
)
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.body import encode_body, mq_key
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsRequestHeader,
    GetTopicStatsRequestHeader,
)
from pocketmq.protocol.headers.topics import QueryTopicConsumeByWhoRequestHeader
from pocketmq.protocol.messages.message import MessageQueue


class ProgressProcessor:
    """Reads all managers, changes none.

    Args:
        reads: bounds of queues.
        topics: queues of topics.
        offsets: progress of groups.
        consumers: subscriptions of groups.
        stats: what groups got of late.
        broker_name: in the queues of the answers.
        fields_of_5x: whether they have them, by profile.
    """

    def __init__(
        self,
        reads: QueueReads,
        topics: TopicConfigManager,
        offsets: ConsumerOffsetManager,
        consumers: ConsumerManager,
        stats: BrokerStats,
        *,
        broker_name: str,
        fields_of_5x: bool,
    ) -> None:
        self._reads = reads
        self._topics = topics
        self._offsets = offsets
        self._consumers = consumers
        self._stats = stats
        self._broker_name = broker_name
        self._fields_of_5x = fields_of_5x

    @handles(RequestCode.GET_TOPIC_STATS_INFO)
    def topic_stats(self, _peer: Peer, request: Command) -> Reply:
        """Bounds of every queue of a topic."""
        topic = request.header(GetTopicStatsRequestHeader).topic
        config = self._topics.get(topic)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist on this broker"
            )
        reads = self._reads
        table = {}
        for queue_id in range(max(config.read_queue_nums, config.write_queue_nums)):
            end = reads.max_offset(topic, queue_id)
            table[self._key(topic, queue_id)] = TopicOffset(
                min_offset=reads.min_offset(topic, queue_id),
                max_offset=end,
                # The store returns -1 for a deleted message; tools expect times from 0 on.
                last_update_timestamp=max(0, reads.store_time(topic, queue_id, end - 1))
                if end
                else 0,
            )
        return self._answer(request, TopicStatsTable(offset_table=table))

    @handles(RequestCode.GET_CONSUME_STATS)
    def consume_stats(self, _peer: Peer, request: Command) -> Reply:
        """Progress of a group, and how fast it is, in the topics asked for that exist here."""
        header = request.header(GetConsumeStatsRequestHeader)
        group = header.consumer_group
        configs = [self._topics.get(topic) for topic in self._topics_asked_for(header)]
        stats = self.stats_of(group, [config for config in configs if config is not None])
        return self._answer(request, stats)

    def stats_of(self, group: str, topics: Iterable[TopicConfig]) -> ConsumeStats:
        """Progress of a group in some topics together."""
        stats = ConsumeStats(offset_table={})
        for config in topics:
            topic = config.topic_name
            for queue_id in range(config.read_queue_nums):
                progress = self._progress(group, topic, queue_id)
                stats.offset_table[self._key(topic, queue_id)] = progress
            stats.consume_tps += self._stats.group_tps(topic, group)
        return stats

    def topics_of(self, group: str, topic: str | None = None) -> list[str]:
        """A group's topics with offsets, or the one; those that its live members subscribe to."""
        topics = [topic] if topic and topic.strip() else sorted(self._offsets.topics_of(group))
        info = self._consumers.get(group)
        if info is None or not info.subscriptions:
            return topics
        return [topic for topic in topics if topic in info.subscriptions]

    def _topics_asked_for(self, header: GetConsumeStatsRequestHeader) -> list[str]:
        """A list as it is; a topic, or all with offsets, only if a live group subscribes (O-20)."""
        listed = dict.fromkeys(t for t in (header.topic_list or "").split(";") if t.strip())
        if listed:
            return list(listed)
        return self.topics_of(header.consumer_group, header.topic)

    @handles(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
    def consumed_by(self, _peer: Peer, request: Command) -> Reply:
        """Groups that subscribe to a topic, or have committed in it."""
        topic = request.header(QueryTopicConsumeByWhoRequestHeader).topic
        groups = {*self._consumers.groups_of_topic(topic), *self._offsets.groups_of(topic)}
        return request.reply(
            body=encode_body(GroupList(group_list=sorted(groups)), request.encoding)
        )

    def _answer(self, request: Command, body: TopicStatsTable | ConsumeStats) -> Reply:
        return request.reply(body=encode_body(body, request.encoding, has_5x=self._fields_of_5x))

    def _progress(self, group: str, topic: str, queue_id: int) -> OffsetWrapper:
        reads = self._reads
        committed = self._offsets.query(group, topic, queue_id) or 0
        last_ms = reads.store_time(topic, queue_id, committed - 1) if committed > 0 else 0
        return OffsetWrapper(
            broker_offset=reads.max_offset(topic, queue_id),
            consumer_offset=committed,
            pull_offset=max(committed, self._offsets.pulled(group, topic, queue_id)),
            last_timestamp=max(0, last_ms),
        )

    def _key(self, topic: str, queue_id: int) -> str:
        return mq_key(MessageQueue(topic, self._broker_name, queue_id))
