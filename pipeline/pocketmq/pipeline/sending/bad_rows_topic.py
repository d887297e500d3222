"""Bad rows as messages of a topic of their own, sent beside the task's good ones."""

from __future__ import annotations

from pocketmq.pipeline.columns.repeats import ROW_PROPERTY, digest_of
from pocketmq.pipeline.sending.bad_rows import BEGIN, BadRow, as_message, without_body
from pocketmq.pipeline.sending.sender import Sender
from pocketmq.pipeline.sending.sink_rows import Batch
from pocketmq.protocol.errors import IllegalMessageError
from pocketmq.protocol.messages import properties as names


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
        """Send it; without its body if a broker has refused the message with it.

        Raises:
            IllegalMessageError: A broker has refused the message without the body as well.
        """
        if not self._is_own(row):
            self.count += 1
            self._tell(row.row, as_message(row))
            return
        shorter = without_body(row.body or b"{}")
        if shorter is None:
            reason = f"it tells of a bad row, and cannot be sent itself: {row.reason}"
            raise IllegalMessageError(reason, topic=self._topic)
        self._tell(row.row, shorter)

    def _is_own(self, row: BadRow) -> bool:
        """Whether it is a message of this class, which a broker has refused. The write may send
        rows of its own to the same topic."""
        return (
            row.topic == self._topic
            and row.properties == _properties(row.row)
            and (row.body or b"").startswith(BEGIN)
        )

    def _tell(self, number: int, body: bytes) -> None:
        properties = _properties(number)
        digest = digest_of(self._topic, body, 0, properties)
        properties[ROW_PROPERTY] = f"{self._prefix}{number}:{digest}"
        properties[names.UNIQ_KEY] = self._new_key()
        queues = self._sender.queues_of(self._topic)
        # Chosen by the task's number, so that a task that runs again uses the same queue.
        self._sender.send(Batch.of_one(queues[self._task % len(queues)], body, properties))

    def finish(self) -> None:
        """Every message is acknowledged."""
        self._sender.finish()
        # Refused messages are sent again without the body, and may be refused once more.
        while refused := self._sender.take_refused():
            for row in refused:
                self.add(row)
            self._sender.finish()

    def cancel(self) -> None:
        """The task's sender is cancelled anyway."""


def _properties(number: int) -> dict[str, str]:
    """Of the message that tells of a row, besides those that the sender makes."""
    return {names.KEYS: f"row-{number}"}
