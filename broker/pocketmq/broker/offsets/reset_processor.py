"""INVOKE_BROKER_TO_RESET_OFFSET (222): move a group by time or to an offset (E-29).

5.x notes the new offsets, and the next pull of each queue is answered with PULL_OFFSET_MOVED (21).
4.9 pushes them to the consumers that are connected, by RESET_CONSUMER_CLIENT_OFFSET (220), and
needs at least one (E-30).
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.store import QueueReads
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.offsets import ResetOffsetBody
from pocketmq.protocol.body import encode_body, mq_key
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.offsets import (
    ResetConsumerClientOffsetRequestHeader,
    ResetOffsetRequestHeader,
)
from pocketmq.protocol.messages.message import MessageQueue

log = structlog.get_logger()

VERSION_WITH_RESET = 28
"""Clients before 3.0.7 do not know the push (E-7)."""


class ResetProcessor:
    """Computes new offsets, and applies them.

    Args:
        offsets: changed here, or read for resets that must not skip messages.
        reads: offsets by time.
        topics: which queues there are.
        groups: which groups there are.
        consumers: connections to push to.
        broker_name: in the queues of the answer.
        server_side: reset at the next pull, as 5.x does; else push.
    """

    def __init__(
        self,
        offsets: ConsumerOffsetManager,
        reads: QueueReads,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        consumers: ConsumerManager,
        *,
        broker_name: str,
        server_side: Callable[[], bool],
    ) -> None:
        self._offsets = offsets
        self._reads = reads
        self._topics = topics
        self._groups = groups
        self._consumers = consumers
        self._broker_name = broker_name
        self._server_side = server_side

    @handles(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET)
    def reset(self, _peer: Peer, request: Command) -> Reply:
        """Move the group; the new offset of each queue."""
        header = request.header(ResetOffsetRequestHeader)
        config = self._topics.get(header.topic)
        server_side = self._server_side()
        if config is None:
            raise RequestRefusedError(
                # Without server-side reset every refusal has this code (E-30).
                ResponseCode.TOPIC_NOT_EXIST if server_side else ResponseCode.SYSTEM_ERROR,
                f"topic {header.topic} does not exist on this broker",
            )
        queue_ids = range(config.read_queue_nums)
        if server_side:
            table = self._reset_here(header, queue_ids)
        else:
            table = self._push(header, queue_ids)
        log.info(
            "offset.reset", group=header.group, topic=header.topic, queues=len(table),
            server_side=server_side,
        )  # fmt: skip
        body = ResetOffsetBody(
            offset_table={mq_key(self._queue(header.topic, q)): o for q, o in table.items()}
        )
        return request.reply(body=encode_body(body, request.encoding))

    def _reset_here(self, header: ResetOffsetRequestHeader, queue_ids: range) -> dict[int, int]:
        if self._groups.get(header.group) is None:
            raise RequestRefusedError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"group {header.group} does not exist on this broker",
            )
        # 5.x's tools may ask for one queue only (E-29).
        if header.queue_id >= 0:
            if header.queue_id not in queue_ids:
                raise _out_of_range(
                    f"queue {header.queue_id} of topic {header.topic} does not exist"
                )
            queue_ids = range(header.queue_id, header.queue_id + 1)
        table = {}
        for queue_id in queue_ids:
            offset = header.offset
            # Look up by time, unless the request gives an offset for a single queue.
            if offset in (None, -1) or header.queue_id < 0:
                offset = self._offset_at(header.topic, queue_id, header.timestamp)
            low = self._reads.min_offset(header.topic, queue_id)
            high = self._reads.max_offset(header.topic, queue_id)
            # Refuse before anything is changed: the next pull would move an offset outside the
            # queue.
            if not low <= offset <= high:
                raise _out_of_range(
                    f"offset {offset} is outside queue {queue_id} of {header.topic}, which "
                    f"begins at {low} and ends at {high}"
                )
            table[queue_id] = offset
        if not table:
            raise _out_of_range(f"No queues to reset: topic {header.topic} has no read queues")
        for queue_id, offset in table.items():
            self._offsets.assign_reset(header.group, header.topic, queue_id, offset)
        return table

    def _push(self, header: ResetOffsetRequestHeader, queue_ids: range) -> dict[int, int]:
        table = {}
        for queue_id in queue_ids:
            committed = self._offsets.query(header.group, header.topic, queue_id)
            # 4.9 pushes new offsets to consumers, and each queue must have an old one (E-30).
            if committed is None:
                raise RequestRefusedError(
                    ResponseCode.SYSTEM_ERROR,
                    f"group {header.group} has no offset in queue {queue_id} of {header.topic}, "
                    "so the offset cannot be reset",
                )
            offset = self._offset_at(header.topic, queue_id, header.timestamp)
            # Without force a reset by time never skips messages.
            table[queue_id] = offset if header.is_force or offset < committed else committed
        info = self._consumers.get(header.group)
        if info is None:
            raise RequestRefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"no member of group {header.group} is connected, so the new offsets cannot be "
                "sent to a member",
            )
        push = ResetConsumerClientOffsetRequestHeader(
            topic=header.topic,
            group=header.group,
            timestamp=header.timestamp,
            is_force=header.is_force,
        )
        queues = {self._queue(header.topic, queue_id): o for queue_id, o in table.items()}
        for member in info.members.values():
            # Clients before 3.0.7 do not know this request (E-7).
            if member.version >= VERSION_WITH_RESET:
                member.channel.oneway(push, _pushed_body(queues, member.channel.encoding))
        return table

    def _offset_at(self, topic: str, queue_id: int, time_ms: int) -> int:
        """A negative time means the end."""
        if time_ms < 0:
            return self._reads.max_offset(topic, queue_id)
        return self._reads.offset_by_time(topic, queue_id, time_ms)

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._broker_name, queue_id)


def _pushed_body(queues: dict[MessageQueue, int], encoding: Encoding) -> bytes:
    """Offsets for a consumer; in JSON with objects as keys, or Go clients misread it."""
    if encoding is Encoding.MSGPACK:
        body = ResetOffsetBody(offset_table={mq_key(queue): o for queue, o in queues.items()})
        return encode_body(body, encoding)
    pairs = ",".join(f"{mq_key(queue)}:{offset}" for queue, offset in queues.items())
    return f'{{"offsetTable":{{{pairs}}}}}'.encode()


def _out_of_range(remark: str) -> RequestRefusedError:
    return RequestRefusedError(ResponseCode.SYSTEM_ERROR, remark)
