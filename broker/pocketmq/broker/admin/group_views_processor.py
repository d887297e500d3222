"""What tools ask about groups beside their progress (E-29).

QUERY_CONSUME_TIME_SPAN (303), GET_BROKER_CONSUME_STATS (317), QUERY_CONSUME_QUEUE (321),
QUERY_TOPICS_BY_CONSUMER (343), QUERY_SUBSCRIPTION_BY_CONSUMER (345).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from pocketmq.broker.admin.progress_processor import ProgressProcessor
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.store.queues.consume_queue import ENTRY
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.clients import QuerySubscriptionBody
from pocketmq.protocol.bodies.offsets import (
    ConsumeQueueData,
    ConsumeStats,
    ConsumeStatsList,
    QueryConsumeQueueBody,
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
)
from pocketmq.protocol.bodies.route import TopicList
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsInBrokerHeader,
    QueryConsumeQueueRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
)
from pocketmq.protocol.headers.topics import (
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.subscription import TAG
from pocketmq.runtime.words import counted

MOST_QUEUES: Final = 5_000
"""Of each a record is read or more, 5 to 11 us; the broker does nothing else meanwhile."""

MOST_ENTRIES: Final = 10_000
"""QUERY_CONSUME_QUEUE answers at most so many."""


class GroupViewsProcessor:
    """Reads all managers, changes none.

    Args:
        core: store, clock, name and address.
        topics: queues of topics.
        offsets: progress of groups.
        consumers: subscriptions of groups.
        groups: all that are configured.
        progress: reads the progress of one group.
    """

    def __init__(
        self,
        core: BrokerCore,
        topics: TopicConfigManager,
        offsets: ConsumerOffsetManager,
        consumers: ConsumerManager,
        groups: SubscriptionGroupManager,
        progress: ProgressProcessor,
    ) -> None:
        self._core = core
        self._reads = core.store.reads
        self._topics = topics
        self._offsets = offsets
        self._consumers = consumers
        self._groups = groups
        self._progress = progress

    @handles(RequestCode.QUERY_TOPICS_BY_CONSUMER)
    def topics_of(self, _peer: Peer, request: Command) -> Reply:
        """Topics in which a group has committed."""
        group = request.header(QueryTopicsByConsumerRequestHeader).group
        body = TopicList(
            topic_list=sorted(self._offsets.topics_of(group)), broker_addr=str(self._core.address)
        )
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER)
    def subscription_of(self, _peer: Peer, request: Command) -> Reply:
        """What a group's members subscribe to in a topic."""
        header = request.header(QuerySubscriptionByConsumerRequestHeader)
        body = QuerySubscriptionBody(
            subscription_data=self._consumers.subscription(header.group, header.topic),
            group=header.group,
            topic=header.topic,
        )
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.QUERY_CONSUME_TIME_SPAN)
    def time_spans(self, _peer: Peer, request: Command) -> Reply:
        """Store times of each queue's ends, and of where a group is in it."""
        header = request.header(QueryConsumeTimeSpanRequestHeader)
        config = self._topics.get(header.topic)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist"
            )
        _check_queues(config.write_queue_nums, f"topic {header.topic} has")
        spans = [
            self._span(header.group, header.topic, queue_id)
            for queue_id in range(config.write_queue_nums)
        ]
        body = QueryConsumeTimeSpanBody(consume_time_span_set=spans)
        return request.reply(body=encode_body(body, request.encoding))

    def _span(self, group: str, topic: str, queue_id: int) -> QueueTimeSpan:
        reads = self._reads
        oldest_ms = reads.earliest_store_time(topic, queue_id)
        end = reads.max_offset(topic, queue_id)
        committed = self._offsets.query(group, topic, queue_id)
        delay_ms = 0
        if (committed or 0) < end:
            # If the next message is already deleted, the oldest remaining one counts.
            next_ms = reads.store_time(topic, queue_id, committed or 0)
            delay_ms = self._core.clock.time_ms() - (oldest_ms if next_ms < 0 else next_ms)
        return QueueTimeSpan(
            message_queue=MessageQueue(topic, self._core.config.name, queue_id),
            min_time_stamp=oldest_ms,
            max_time_stamp=reads.store_time(topic, queue_id, end - 1) if end else -1,
            consume_time_stamp=reads.store_time(topic, queue_id, committed - 1)
            if committed
            else oldest_ms,
            delay_time=delay_ms,
        )

    @handles(RequestCode.GET_BROKER_CONSUME_STATS)
    def all_stats(self, _peer: Peer, request: Command) -> Reply:
        """Progress of every group in every topic; of those in order if only they are wanted."""
        only_order = request.header(GetConsumeStatsInBrokerHeader).is_order
        wanted: list[tuple[str, list[TopicConfig]]] = []
        queues = 0
        for group in sorted(self._groups.table):
            configs = [self._topics.get(topic) for topic in self._progress.topics_of(group)]
            topics = [c for c in configs if c is not None and (c.order or not only_order)]
            queues += sum(config.read_queue_nums for config in topics)
            wanted.append((group, topics))
            # Check before anything is read: the answer grows with the number of queues.
            _check_queues(queues, "the groups on this broker together have at least")
        tables: list[dict[str, list[ConsumeStats]]] = []
        lag = in_flight = 0
        for group, topics in wanted:
            of_group = [self._progress.stats_of(group, [config]) for config in topics]
            tables.append({group: of_group})
            for stats in of_group:
                for each in stats.offset_table.values():
                    lag += each.broker_offset - each.consumer_offset
                    in_flight += each.pull_offset - each.consumer_offset
        body = ConsumeStatsList(
            consume_stats_list=tables,
            broker_addr=str(self._core.address),
            total_diff=lag,
            total_inflight_diff=in_flight,
        )
        has_5x = self._core.profile.broker.fields_of_5x
        return request.reply(body=encode_body(body, request.encoding, has_5x=has_5x))

    @handles(RequestCode.QUERY_CONSUME_QUEUE)
    def queue_entries(self, _peer: Peer, request: Command) -> Reply:
        """Entries of a queue as they lie on the disk, and the subscription of a group."""
        header = request.header(QueryConsumeQueueRequestHeader)
        topic, queue_id, index = header.topic, header.queue_id, header.index
        queue = self._reads.consume_queues.get(topic, queue_id)
        if queue is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!"
            )
        body = QueryConsumeQueueBody(
            max_queue_index=queue.max_offset, min_queue_index=queue.min_offset
        )
        if header.consumer_group is not None:
            found = self._consumers.subscription(header.consumer_group, topic)
            body.subscription_data = found
            body.filter_data = (
                f"{header.consumer_group}@{topic} is not online!"
                if found is None
                else "null"
                if found.expression_type == TAG
                else msgspec.json.encode(
                    {"expression": found.sub_string, "expressionType": found.expression_type}
                ).decode()
            )
        # RocketMQ answers SUCCESS with a remark and no body.
        if not queue.min_offset <= index < queue.max_offset:
            return request.reply(remark=f"Index {index} of {queue_id}@{topic} is not exist!")
        end = min(index + min(header.count, MOST_ENTRIES), queue.max_offset)
        body.queue_data = _entries(queue.entries, index, end)
        return request.reply(body=encode_body(body, request.encoding))


def _check_queues(count: int, who: str) -> None:
    if count > MOST_QUEUES:
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            f"{who} {counted(count, 'queue')}, but one answer can contain at most {MOST_QUEUES} "
            "queues; ask for the progress of one group (GET_CONSUME_STATS)",
        )


def _entries(
    read: Callable[[int, int], memoryview | None], begin: int, end: int
) -> list[ConsumeQueueData]:
    """The entries from `begin` up to `end`; they end early where a file is gone."""
    found: list[ConsumeQueueData] = []
    while begin < end:
        packed = read(begin, end - begin)
        if packed is None:
            break
        entries = [
            ConsumeQueueData(physic_offset=at, physic_size=size, tags_code=code)
            for at, size, code in ENTRY.iter_unpack(packed)
        ]
        found += entries
        begin += len(entries)
    return found
