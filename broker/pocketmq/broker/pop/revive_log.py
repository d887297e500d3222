"""Stores check points and acks: timer messages for the revive topic (K-70)."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.pop.records import AHEAD_MS, CHECK_POINT_TAG, Ack, CheckPoint
from pocketmq.broker.store import PutResult, PutStatus, StoredMessage
from pocketmq.broker.storing.rewrites import Rewrites
from pocketmq.protocol import properties as names
from pocketmq.protocol.properties import encode_properties
from pocketmq.protocol.subscription import tags_code


class ReviveLog:
    """Writes to the revive topic through the timers.

    Args:
        core: store, clock and address.
        rewrites: include that of the timers.
        topic: the revive topic.
        queues: how many queues it has.
    """

    def __init__(self, core: BrokerCore, rewrites: Rewrites, topic: str, queues: int) -> None:
        self.topic = topic
        self.queues = queues
        self._core = core
        self._rewrites = rewrites
        self._next_queue = 0

    def next_queue(self) -> int:
        """The revive queue of the next pop (K-32)."""
        self._next_queue = (self._next_queue + 1) % self.queues
        return self._next_queue

    def check_point(self, point: CheckPoint, queue_id: int) -> StoredMessage:
        """The message that stores a check point."""
        due_ms = point.revive_time_ms - AHEAD_MS
        return self._message(queue_id, CHECK_POINT_TAG, point.encode(), point.uniq_key, due_ms)

    def ack(self, ack: Ack, queue_id: int, due_ms: int) -> StoredMessage:
        """The message that stores an ack.

        Args:
            ack: of one message or of several.
            queue_id: revive queue of its check point.
            due_ms: when the messages are seen again.
        """
        return self._message(queue_id, ack.tag, ack.encode(), ack.uniq_key, due_ms)

    def put(self, messages: Sequence[StoredMessage]) -> list[PutResult] | None:
        """Store them; None when one could not be stored."""
        results = self._core.store.put_messages(messages)
        return None if any(r.status is not PutStatus.PUT_OK for r in results) else results

    def _message(
        self, queue_id: int, tag: str, body: bytes, key: str, due_ms: int
    ) -> StoredMessage:
        now_ms = self._core.clock.time_ms()
        host = self._core.address.packed
        properties = {
            names.TIMER_DELIVER_MS: str(due_ms),
            names.UNIQ_KEY: key,
            names.TAGS: tag,
        }
        message = StoredMessage(
            topic=self.topic,
            queue_id=queue_id,
            body=body,
            properties=b"",
            flag=0,
            sys_flag=0,
            born_timestamp_ms=now_ms,
            born_host=host,
            store_host=host,
            tags_code=tags_code(tag),
            uniq_key=key,
        )
        if not self._rewrites.apply(message, properties, now_ms):
            message.properties = encode_properties(properties).encode()
        return message
