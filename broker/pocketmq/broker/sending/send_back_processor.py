"""CONSUMER_SEND_MSG_BACK (36): a consumer failed, deliver the message again (B-80 to B-85)."""

from __future__ import annotations

from collections.abc import Callable
from random import randrange

import structlog

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.sending.retry import max_reconsume_times, plan_send_back, sent_back
from pocketmq.broker.sending.send_back_reports import SendBackReports
from pocketmq.broker.store import MessageStore, PutStatus
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pocketmq.protocol.scalars import Perm
from pocketmq.protocol.stored.record import decode_record
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()


class SendBackProcessor:
    """Stores a copy of a message in its group's retry or dead letter topic.

    Args:
        store: holds the message.
        puts: takes the copy.
        topics: makes the retry and the DLQ topic.
        groups: how often a group retries.
        address: goes into the copies.
        clock: stamps changes.
        reports: told of those that are stored.
        broker_permission: the broker's own permission bits, now.
    """

    def __init__(
        self,
        store: MessageStore,
        puts: SafePuts,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        address: BrokerAddress,
        clock: Clock,
        reports: SendBackReports,
        *,
        broker_permission: Callable[[], int] = lambda: Perm.RW,
    ) -> None:
        self._store = store
        self._puts = puts
        self._topics = topics
        self._groups = groups
        self._address = address
        self._clock = clock
        self._reports = reports
        self._permission = broker_permission

    # behaviour 70
    @handles(RequestCode.CONSUMER_SEND_MSG_BACK)
    def send_back(self, peer: Peer, request: Command) -> Reply:
        """Store the copy; success also for groups that do not retry."""
        header = request.header(ConsumerSendMsgBackRequestHeader)
        now_ms = self._clock.time_ms()
        config = self._groups.find_or_create(header.group, now_ms)
        if config is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"group {header.group[:300]} cannot retry messages: the group "
                f"{self._groups.why_not_made(header.group)}",
            )
        if not Perm.is_writable(self._permission()):
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                "the broker accepts no messages: its brokerPermission does not allow writes",
            )
        # A group without a retry topic: the message is dropped, and the answer is SUCCESS (B-80).
        if config.retry_queue_nums <= 0:
            return request.reply()
        topic = self._topics.ensure_retry_topic(
            header.group, config.retry_queue_nums, now_ms=now_ms, unit_mode=header.unit_mode
        )
        if not Perm.is_writable(topic.perm):
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                f"topic {topic.topic_name} cannot be written to: its permission is "
                f"{Perm.text(topic.perm)}",
            )
        # The client names the message by its physical offset (B-80).
        stored = self._store.lookup(header.offset)
        if stored is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR,
                f"no message is stored at commit log offset {header.offset}",
            )
        record = decode_record(stored)
        limit = max_reconsume_times(config, header.max_reconsume_times, request.version)
        # The number of tries in the message decides, because it may come from another broker
        # (B-83).
        plan = plan_send_back(record.reconsume_times, header.delay_level, limit)
        if plan.to_dlq:
            # The dead letter topic has one queue, with permission to read and write (B-83).
            topic = self._topics.ensure_dlq_topic(header.group, now_ms=now_ms)
            queue_id = 0
            log.info(
                "message.given_up", group=header.group, topic=record.topic,
                msg_id=record.msg_id, retries=record.reconsume_times,
            )  # fmt: skip
        else:
            # Retries have no order to keep, so RocketMQ takes a random queue (B-83).
            queue_id = randrange(config.retry_queue_nums)
        message, properties = sent_back(
            record, topic.topic_name, queue_id, plan.delay_level, self._address.packed
        )
        result = self._puts.put(message, properties)
        if result.status is PutStatus.PUT_OK:
            self._reports.stored(record, header.group, topic.topic_name, plan)
        return self._puts.answer_when_safe(peer, request, result)
