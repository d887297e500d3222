"""What a job reads of each queue: what stores, topics and tables have alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.losses import Loss
from pocketmq.pipeline.progress.resume import left
from pocketmq.protocol.messages.message import MessageQueue

PLACE: Final = "physicalOffset"
NO_PLACE: Final = -1
"""In marks of rows of tables."""


class Source(Protocol):
    """Which messages there are."""

    def marks(self, offsets: Offsets) -> dict[MessageQueue, Mark]:
        """Marks of these messages, as they are now; those that are not stored are missing."""

    def queues(self, stand: Checkpoint) -> list[QueueSpan]:
        """Which offsets of each queue are behind those that were read.

        Args:
            stand: Up to where each queue was read; others are read from their begin.
        """


@dataclass(frozen=True, slots=True)
class QueueSpan:
    """What one queue has to be read."""

    queue: MessageQueue
    low: int
    """First offset."""
    high: int
    """The offset behind the last."""
    loss: Loss | None = None
    """What is not read although it was not read before, or not known to be."""


def gone_queues(
    found: Sequence[QueueSpan], stand: Checkpoint, topics: Sequence[str]
) -> list[QueueSpan]:
    """Those that were read and that a store or a table does not have any more.

    Args:
        found: What it has.
        stand: What was read before.
        topics: Only these; all if there are none.
    """
    there = {each.queue for each in found}
    missing = [
        queue
        for queue in stand.offsets
        if queue not in there and (not topics or queue.topic in topics)
    ]
    # `left` returns None for a queue that was already reported as gone.
    losses = [left(queue, stand) for queue in missing]
    return [
        QueueSpan(loss.queue, loss.wanted, loss.wanted, loss) for loss in losses if loss is not None
    ]
