"""Bad rows as messages of a topic of their own, sent beside the task's good ones."""

from __future__ import annotations

from pocketmq.pipeline.bad_rows import BadRow, as_message
from pocketmq.pipeline.sender import Sender
from pocketmq.pipeline.sink_rows import Batch
from pocketmq.protocol import properties as names
from pocketmq.protocol.errors import IllegalMessageError


class BadRowTopic:
    """Sends a message for each bad row; its queue depends on the task alone.

    Args:
        sender: The task's.
        topic: Where they go.
        row_prefix: What their SPARK_ROW begins with, as that of the task's good rows.
        task: The task.
    """

    def __init__(self, sender: Sender, topic: str, row_prefix: str, task: int) -> None:
        self.count = 0
        self._sender = sender
        self._topic = topic
        self._prefix = row_prefix
        self._task = task
        self._new_key = sender.uniq_keys()

    def add(self, row: BadRow) -> None:
        """Send it.

        Raises:
            IllegalMessageError: It is itself such a message, which a broker has refused.
        """
        if row.topic == self._topic:
            raise IllegalMessageError(
                f"a bad row could not be told of: {row.reason}", topic=row.topic
            )
        self.count += 1
        body, properties = as_message(row, self._topic, self._prefix)
        properties[names.UNIQ_KEY] = self._new_key()
        queues = self._sender.queues_of(self._topic)
        self._sender.send(Batch.of_one(queues[self._task % len(queues)], body, properties))

    def finish(self) -> None:
        """Every message is acknowledged."""
        self._sender.finish()
        for row in self._sender.take_refused():
            self.add(row)

    def cancel(self) -> None:
        """The task's sender is cancelled anyway."""
