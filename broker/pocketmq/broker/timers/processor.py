"""RECALL_MESSAGE (370), and what slaves and tools ask of timers (60, 61)."""

from __future__ import annotations

import msgspec

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.sending.incoming import packed_address
from pocketmq.broker.sending.stamp import REGION
from pocketmq.broker.store import StoredMessage
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.files import TimerFiles
from pocketmq.broker.timers.rules import TimerRules, delete_key
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.timers import RecallMessageRequestHeader, RecallMessageResponseHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.receipts import RecallHandle
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.scalars import Perm

RECALL_TAG = "_RECALL_TAG_"


class RecallProcessor:
    """Stores a cancel for a timer message that still waits (R-31, R-32).

    Success says that the cancel is stored, not that it came in time.

    Args:
        core: options, clock and address of the broker.
        topics: what exists here.
        puts: stores the cancel.
        rules: how far ahead a time may be.
    """

    def __init__(
        self, core: BrokerCore, topics: TopicConfigManager, puts: SafePuts, rules: TimerRules
    ) -> None:
        self._core = core
        self._topics = topics
        self._puts = puts
        self._rules = rules

    @handles(RequestCode.RECALL_MESSAGE)
    def recall(self, peer: Peer, request: Command) -> Reply:
        """Store a cancel for the message."""
        try:
            return self._recalled(peer, request)
        except RequestRefusedError as exc:  # an answer with the region, as every one of a recall
            return request.reply({names.MSG_REGION: REGION}, code=exc.code, remark=exc.remark)

    def _recalled(self, peer: Peer, request: Command) -> Reply:
        # A slave takes no messages, and its master may have delivered this one by now.
        if self._puts.is_slave:
            raise RequestRefusedError(
                ResponseCode.SLAVE_NOT_AVAILABLE, "recall failed, the broker is a slave"
            )
        header = request.header(RecallMessageRequestHeader)
        handle = self._checked(header)
        now_ms = self._core.clock.time_ms()
        # Releases differ in how a cancel names its message (T-136); an option overrides that.
        names_topic = self._core.config.append_topic_for_timer_delete_key
        if names_topic is None:
            names_topic = self._core.profile.broker.cancel_names_topic
        properties = {
            names.TIMER_DEL_UNIQKEY: delete_key(
                handle.topic, handle.uniq_key, names_topic=names_topic
            ),
            names.UNIQ_KEY: handle.uniq_key,
            names.TIMER_DELIVER_MS: str(handle.due_ms),
            # A cancel is a message of its own, born now.
            names.BORN_TIMESTAMP: str(now_ms),
            names.TAGS: RECALL_TAG,
        }
        if header.producer_group:
            properties[names.PRODUCER_GROUP] = header.producer_group
        message = StoredMessage(
            topic=handle.topic,
            queue_id=0,
            # A message needs a body (S-10).
            body=b"0",
            properties=encode_properties(properties).encode(),
            flag=0,
            sys_flag=0,
            born_timestamp_ms=now_ms,
            born_host=packed_address(peer.address),
            store_host=self._core.address.packed,
            tags_code=tags_code(RECALL_TAG),
            uniq_key=handle.uniq_key,
        )
        # Success means only that the cancel is stored; it may still come too late.
        result = self._puts.put(message, properties)
        reply = request.reply(RecallMessageResponseHeader(msg_id=handle.uniq_key, region=REGION))
        return self._puts.answer_when_safe(peer, request, result, reply)

    def _checked(self, header: RecallMessageRequestHeader) -> RecallHandle:
        config = self._core.config
        if not config.recall_message_enable:
            raise RequestRefusedError(
                ResponseCode.NO_PERMISSION,
                "recall failed, operation is forbidden; set recallMessageEnable=true",
            )
        if not config.broker_permission & Perm.WRITE and (
            not config.allow_recall_when_broker_not_writeable
        ):
            raise RequestRefusedError(
                ResponseCode.SERVICE_NOT_AVAILABLE, "recall failed, broker service not available"
            )
        if self._topics.get(header.topic) is None:
            raise RequestRefusedError(
                ResponseCode.TOPIC_NOT_EXIST,
                f"recall failed, the topic[{header.topic}] not exist",
            )
        try:
            handle = RecallHandle.decode(header.recall_handle)
        except BadRequestError as exc:
            raise _illegal(str(exc)) from exc
        # A handle is valid for its own topic only.
        if handle.topic != header.topic:
            raise _illegal("recall failed, topic not match")
        if handle.broker_name != config.name:
            raise _illegal("recall failed, broker service not available")
        left_ms = handle.due_ms - self._core.clock.time_ms()
        # Already delivered, or later than any message may be: the cancel would have no effect.
        if not 0 < left_ms < self._rules.max_delay():
            raise _illegal(
                "recall failed, timestamp invalid: the message was already delivered, or the "
                "time in the handle is later than a message may be delayed"
            )
        return handle


def _illegal(remark: str) -> RequestRefusedError:
    return RequestRefusedError(ResponseCode.ILLEGAL_OPERATION, remark)


class TimerProcessor:
    """How far the timers are (60), and how many messages wait (61).

    Args:
        files: hold the checkpoint.
        counts: by topic.
    """

    def __init__(self, files: TimerFiles, counts: TimerCounts) -> None:
        self._files = files
        self._counts = counts

    @handles(RequestCode.GET_TIMER_CHECK_POINT)
    def check_point(self, peer: Peer, request: Command) -> Reply:
        """56 bytes (T-114), whatever the encoding."""
        return request.reply(None, self._files.checkpoint.encode())

    @handles(RequestCode.GET_TIMER_METRICS)
    def metrics(self, peer: Peer, request: Command) -> Reply:
        """JSON, whatever the encoding: a slave writes it to a file (T-115)."""
        return request.reply(None, msgspec.json.encode(self._counts.wrapper()))
