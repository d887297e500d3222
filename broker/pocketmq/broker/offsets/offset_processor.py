"""Consumer offsets and the bounds of queues (B-31 to B-36, E-23).

QUERY_CONSUMER_OFFSET (14), UPDATE_CONSUMER_OFFSET (15), GET_ALL_CONSUMER_OFFSET (43),
SEARCH_OFFSET_BY_TIMESTAMP (29), GET_MAX_OFFSET (30), GET_MIN_OFFSET (31),
GET_EARLIEST_MSG_STORETIME (32).
"""

from __future__ import annotations

import structlog

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.store import Boundary, GetStatus, QueueReads
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.body import encode_large
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.offsets import (
    EarliestStoreTimeResponseHeader,
    GetEarliestStoreTimeRequestHeader,
    GetMaxOffsetRequestHeader,
    GetMinOffsetRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile.broker import BrokerProfile
from pocketmq.runtime.words import counted

log = structlog.get_logger()


class OffsetProcessor:
    """Answers requests about committed offsets and the bounds of queues.

    Args:
        offsets: committed offsets.
        reads: bounds of queues.
        topics: which topics exist.
        groups: which groups exist.
        clock: stamps changes.
        profile: 4.9 does not check groups on commit, and counts an empty queue as young.
        budget: how many offsets are kept.
    """

    def __init__(
        self,
        offsets: ConsumerOffsetManager,
        reads: QueueReads,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        clock: Clock,
        profile: BrokerProfile,
        *,
        budget: BudgetSource = default_budget,
    ) -> None:
        self._budget = budget
        self._offsets = offsets
        self._reads = reads
        self._topics = topics
        self._groups = groups
        self._clock = clock
        self._profile = profile

    # -- groups ---------------------------------------------------------------------------------

    @handles(RequestCode.QUERY_CONSUMER_OFFSET)
    def query_consumer_offset(self, _peer: Peer, request: Command) -> Reply:
        """The group's committed offset; 0 in a young queue; or QUERY_NOT_FOUND (22) (B-34)."""
        header = request.header(QueryConsumerOffsetRequestHeader)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        # A pending reset comes first: the client must begin where the tool put it (B-34).
        offset = self._offsets.pending_reset(group, topic, queue_id)
        if offset is None:
            offset = self._offsets.query(group, topic, queue_id)
        # In a young queue the answer is 0, so that a new group misses nothing (B-34.3).
        wants_zero = header.set_zero_if_not_found is not False or not self._profile.set_zero_is_read
        if offset is None and wants_zero:
            offset = self._offset_of_young_queue(topic, queue_id)
        # After this answer the client goes by its own `consumeFromWhere` (C-33).
        if offset is None:
            raise RequestRefusedError(
                ResponseCode.QUERY_NOT_FOUND,
                f"group {group} has no offset in queue {queue_id} of {topic}; the group may be new",
            )
        return request.reply(OffsetResponseHeader(offset=offset))

    # behaviour 22
    def _offset_of_young_queue(self, topic: str, queue_id: int) -> int | None:
        """0 where the queue still begins with a first message that is in memory."""
        # The queue's first messages are gone.
        if self._reads.min_offset(topic, queue_id) > 0:
            return None
        first = self._reads.get_message(topic, queue_id, 0, 1)
        # 4.9 treats an empty queue as in memory, and 5.x does not (B-34.3).
        if first.status is not GetStatus.FOUND:
            return 0 if self._profile.offset_of_empty_queue == "zero" else None
        # If the first message is no longer in memory, the client decides where to start (B-34.3).
        return None if first.suggest_pulling_from_slave else 0

    def start_offset(self, topic: str, queue_id: int) -> int:
        """Where a group without an offset begins: 0 in a young queue, else its end (B-36)."""
        offset = self._offset_of_young_queue(topic, queue_id)
        return self._reads.max_offset(topic, queue_id) if offset is None else offset

    @handles(RequestCode.UPDATE_CONSUMER_OFFSET)
    def update_consumer_offset(self, peer: Peer, request: Command) -> Reply:
        """Commit; a smaller offset is accepted with a warning (B-32, B-33)."""
        header = request.header(UpdateConsumerOffsetRequestHeader)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        # 4.9 keeps whatever a client commits (B-33).
        if self._profile.check_offset_commits and self._groups.get(group) is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"group {group} does not exist on this broker",
            )
        self._check_queue(topic, queue_id)
        # Only the first commit in a queue takes memory.
        if queue_id not in self._offsets.queues(group, topic):
            budget = self._budget()
            budget.check("name_chars", len(group), "characters of the group's name")
            budget.check(
                "offsets",
                self._offsets.count + 1,
                "offsets of groups in queues",
                advice="delete groups that nobody needs, or raise it",
            )
        # A commit must not undo a tool's reset that the group has not seen yet (B-33).
        if self._offsets.pending_reset(group, topic, queue_id) is not None:
            return request.reply(remark="the queue is being reset; the commit is ignored")
        before = self._offsets.commit(
            group, topic, queue_id, header.commit_offset, self._clock.time_ms()
        )
        if before is not None and before > header.commit_offset:
            log.warning(
                "offset.fell", group=group, topic=topic, queue_id=queue_id,
                before=before, offset=header.commit_offset, peer=peer.address,
            )  # fmt: skip
        return request.reply()

    def _check_queue(self, topic: str, queue_id: int) -> None:
        """Check that the queue exists. RocketMQ 5 checks the topic alone, 4.9 nothing: there
        commits for queues that do not exist are kept for ever."""
        config = self._topics.get(topic)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST, f"topic {topic} does not exist on this broker"
            )
        queues = max(config.read_queue_nums, config.write_queue_nums)
        # A queue that was removed by shrinking the topic may have messages, and so progress.
        if 0 <= queue_id < queues or self._reads.max_offset(topic, queue_id) > 0:
            return
        raise RequestRefusedError(
            self._profile.invalid_parameter_code,
            f"queue id {queue_id} is illegal: topic {topic} has only {counted(queues, 'queue')} "
            "on this broker",
        )

    @handles(RequestCode.GET_ALL_CONSUMER_OFFSET)
    def all_consumer_offsets(self, _peer: Peer, request: Command) -> Reply:
        """The whole table."""
        table = self._offsets.wrapper()
        body = encode_large(table, request.encoding, has_5x=self._profile.fields_of_5x)
        return request.reply(body=body)

    # -- queues ---------------------------------------------------------------------------------

    @handles(RequestCode.GET_MAX_OFFSET)
    def max_offset(self, _peer: Peer, request: Command) -> Reply:
        """The next offset to be written; 0 for an unknown queue."""
        header = request.header(GetMaxOffsetRequestHeader)
        offset = self._reads.max_offset(header.topic, header.queue_id)
        return request.reply(OffsetResponseHeader(offset=offset))

    @handles(RequestCode.GET_MIN_OFFSET)
    def min_offset(self, _peer: Peer, request: Command) -> Reply:
        """The oldest offset that can be read; 0 for an unknown queue."""
        header = request.header(GetMinOffsetRequestHeader)
        offset = self._reads.min_offset(header.topic, header.queue_id)
        # RocketMQ builds this answer as one of a call between brokers, which have an empty remark.
        return request.reply(OffsetResponseHeader(offset=offset), remark="")

    @handles(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    def offset_by_time(self, _peer: Peer, request: Command) -> Reply:
        """The offset at a store time (S-40, S-41)."""
        header = request.header(SearchOffsetRequestHeader)
        upper = (header.boundary_type or "").upper() == Boundary.UPPER.name
        offset = self._reads.offset_by_time(
            header.topic,
            header.queue_id,
            header.timestamp,
            Boundary.UPPER if upper else Boundary.LOWER,
        )
        return request.reply(OffsetResponseHeader(offset=offset))

    @handles(RequestCode.GET_EARLIEST_MSG_STORETIME)
    def earliest_store_time(self, _peer: Peer, request: Command) -> Reply:
        """When the oldest message was stored; -1 without one."""
        header = request.header(GetEarliestStoreTimeRequestHeader)
        time_ms = self._reads.earliest_store_time(header.topic, header.queue_id)
        return request.reply(EarliestStoreTimeResponseHeader(timestamp=time_ms))
