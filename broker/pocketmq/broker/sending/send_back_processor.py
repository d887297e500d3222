"""CONSUMER_SEND_MSG_BACK (36): a consumer failed, deliver the message again (B-80 to B-85)."""

from __future__ import annotations

from random import randrange

import structlog

from pocketmq.broker.admin.stats import BrokerStats
from pocketmq.broker.delays.delay import to_schedule_topic
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.sending.retry import max_reconsume_times, plan_send_back, sent_back
from pocketmq.broker.store import MessageStore, PutStatus
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.record import decode_record
from pocketmq.protocol.scalars import Perm
from pocketmq.protocol.validation import is_folder_name, retry_topic
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()


class SendBackProcessor:
    """Stores a copy of a message in its group's retry or dead letter topic.

    Args:
        store: holds the message and takes the copy.
        topics: makes the retry and the DLQ topic.
        groups: how often a group retries.
        topics_file: the answer waits until a new DLQ topic is on the disk.
        stats: counts.
        clock: stamps changes.
        broker_permission: the broker's own permission bits.
        max_delay_level: number of delay levels.
    """

    def __init__(
        self,
        store: MessageStore,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        topics_file: SavedTable,
        stats: BrokerStats,
        clock: Clock,
        *,
        broker_permission: int = Perm.RW,
        max_delay_level: int = 18,
    ) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._topics_file = topics_file
        self._stats = stats
        self._clock = clock
        self._permission = broker_permission
        self._max_delay_level = max_delay_level
        self._store_host = b""

    def open(self, store_host: bytes) -> None:
        """Know the address that goes into the copies."""
        self._store_host = store_host

    @handles(RequestCode.CONSUMER_SEND_MSG_BACK)
    def send_back(self, peer: Peer, request: Command) -> Reply:
        """Store the copy; success also for groups that do not retry."""
        header = request.header(ConsumerSendMsgBackRequestHeader)
        now_ms = self._clock.time_ms()
        config = self._groups.find_or_create(header.group, now_ms)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group {header.group} does not exist, so it cannot retry"
                if is_folder_name(retry_topic(header.group))
                else f"group {header.group[:200]!r} cannot be the name of a folder; use letters, "
                "digits, '_', '-', '%' and '|'",
            )
        if not Perm.is_writable(self._permission):
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION, "the broker takes no messages: it may not be written"
            )
        if config.retry_queue_nums <= 0:
            return request.reply()
        topic = self._topics.ensure_retry_topic(
            header.group, config.retry_queue_nums, now_ms=now_ms, unit_mode=header.unit_mode
        )
        if not Perm.is_writable(topic.perm):
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION, f"topic {topic.topic_name} may not be written"
            )
        stored = self._store.lookup(header.offset)
        if stored is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"no message is stored at offset {header.offset}"
            )
        record = decode_record(stored)
        limit = max_reconsume_times(config, header.max_reconsume_times, request.version)
        plan = plan_send_back(record.reconsume_times, header.delay_level, limit)
        if plan.to_dlq:
            topic = self._topics.ensure_dlq_topic(header.group, now_ms=now_ms)
            queue_id = 0
            log.info(
                "message.given_up", group=header.group, topic=record.topic,
                msg_id=record.msg_id, retries=record.reconsume_times,
            )  # fmt: skip
        else:
            queue_id = randrange(config.retry_queue_nums)
        message, properties = sent_back(
            record, topic.topic_name, queue_id, plan.delay_level, self._store_host
        )
        if plan.delay_level > 0:
            to_schedule_topic(message, properties, plan.delay_level, self._max_delay_level)
        result = self._store.put_messages([message])[0]
        if result.status is not PutStatus.PUT_OK:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"the copy was not stored: {result.status.name}"
            )
        self._stats.note_put(1, result.size, self._clock.monotonic())
        if self._topics_file.is_saved:
            return request.reply()
        self._topics_file.when_saved(lambda: peer.reply(request, request.reply()))
        return None
