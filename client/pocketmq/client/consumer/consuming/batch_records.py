"""What happens to messages before a listener or an iterator gets them, and when they are done.

Concurrent consumption only; `concurrent.py` says whose turn it is and what failures lead to.
"""

from __future__ import annotations

from typing import TypeAlias

from pocketmq.client.consumer.popping.popped_queue import PopQueue
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.receipts import user_topic
from pocketmq.protocol.messages.validation import retry_topic
from pocketmq.runtime.clock import Clock

Holder: TypeAlias = ProcessQueue | PopQueue
"""Where messages are kept until they are done: pulled ones, or popped ones."""


class BatchRecords:
    """Prepares messages for whoever consumes them, and notes that they are done.

    Args:
        group: Consumer group.
        clock: For start times.
        offsets: Offsets in memory, which are updated here.
    """

    __slots__ = ("_clock", "_group", "_monotonic", "_offsets", "_retry_topic", "_time_ms")

    def __init__(self, group: str, clock: Clock, offsets: OffsetTable) -> None:
        self._group = group
        self._clock = clock
        self._monotonic = clock.monotonic
        self._time_ms = clock.time_ms
        self._offsets = offsets
        self._retry_topic = retry_topic(group)

    def is_void(self, messages: list[MessageExt], buffer: Holder) -> bool:
        """Whether the messages are not ours any more, so that no answer for them counts."""
        if isinstance(buffer, ProcessQueue):
            return buffer.claim.dropped
        return buffer.lapsed(messages, self._clock.time_ms())

    def prepare(self, messages: list[MessageExt], buffer: Holder) -> bool:
        """Show retried messages under their original topic and note the start (C-54).

        Returns:
            Whether they are to be consumed; not if they are void.
        """
        clock, retries = self._clock, self._retry_topic
        now_ms = clock.time_ms()
        if isinstance(buffer, ProcessQueue):
            if buffer.claim.dropped:
                return False
            buffer.started(messages, clock.monotonic())
        elif buffer.lapsed(messages, now_ms):
            return False
        for message in messages:
            message.note_consume_start(now_ms)
            if message.topic.startswith(retries):
                self._show_original_topic(message)
        return True

    def _show_original_topic(self, message: MessageExt) -> None:
        topic = message.topic
        message.topic = (
            message.properties.get(names.RETRY_TOPIC, topic)
            if topic == self._retry_topic
            else user_topic(topic, self._group)
        )

    def prepare_one(self, message: MessageExt, buffer: Holder) -> bool:
        """`prepare` of a single message."""
        if type(buffer) is not ProcessQueue:
            return self.prepare([message], buffer)
        if buffer.claim.dropped:
            return False
        buffer.started_one(message, self._monotonic())
        message.note_consume_start(self._time_ms())
        if message.topic.startswith(self._retry_topic):
            self._show_original_topic(message)
        return True

    def done_one(self, message: MessageExt, buffer: Holder) -> None:
        """`done` of a single message."""
        if type(buffer) is not ProcessQueue:
            self.done([message], buffer)
        elif not buffer.claim.dropped:
            offset = buffer.remove_one(message)
            if offset >= 0:
                self._offsets.advance(buffer.queue, offset)

    def done(self, messages: list[MessageExt], buffer: Holder) -> None:
        """They need not come again, unless they are void by now: those that were popped are
        acknowledged (K-170), and of others the queue's offset moves (C-55)."""
        if not isinstance(buffer, ProcessQueue):
            if not self.is_void(messages, buffer):
                buffer.settle(messages, (), 0)
        elif not buffer.claim.dropped:
            self.remove(messages, buffer)

    def remove(self, messages: list[MessageExt], buffer: ProcessQueue) -> None:
        """The queue's offset moves to the first message left, if the queue is still ours (C-55)."""
        offset = buffer.remove(messages)
        if offset >= 0 and not buffer.claim.dropped:
            self._offsets.update(buffer.queue, offset, increase_only=True)
