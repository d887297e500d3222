"""Messages of queues that are not read: what is told of them, and how they stop a reader.

Streams (`stream_losses`), exports and replays (`resume`) find out what is lost, each in its way.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NoReturn

from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.workers.worker_log import log
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted

MADE_ANEW: Final = "the topic was made anew, or the store was replaced"
READ_AGAIN: Final = "whoever goes on reads all of it, what was copied into it a second time"


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages of one queue that are not read."""

    queue: MessageQueue
    wanted: int
    """Where reading was to go on."""
    found: int
    """Where the queue begins, or ends, instead."""
    count: int
    """How many messages, as far as one knows: at least so many."""
    what: str

    @property
    def advice(self) -> str:
        """What option failOnDataLoss=false would do, where that is more than to leave them out."""
        return ""


def begins_late(low: int) -> str:
    """What is told of a new queue whose first messages were removed already."""
    return f"is new and begins at {low}: messages 0 to {low - 1} were removed before they were read"


def ends_early(wanted: int, end: int) -> str:
    """What is told of a queue that ends before an offset that is wanted of it."""
    return f"offset {wanted} does not exist; the queue now ends at {end}"


def is_away(queue: MessageQueue, at: int, end: int) -> str:
    """What is told of a queue that its broker has and does not give out any more."""
    return (
        f"cannot be read any more, and {counted(end - at, 'message')} from offset {at} on not read"
        f"; give the topic its queues back (pocketmq topic create {queue.topic} --queues "
        f"{queue.queue_id + 1}) until all is"
    )


def refuse(losses: Collection[Loss], advice: str | None = None) -> NoReturn:
    """Stop at losses, of which there is one at least.

    Raises:
        DataLossError: always; it names the first queue, and how many more there are.
    """
    # Sorted, so that the same losses always give the same message.
    first, *others = sorted(losses, key=lambda loss: loss.queue)
    more = f" (and {counted(len(others), 'more queue')} like it)" if others else ""
    place = str(first.queue), first.wanted, first.found, first.what + more
    advice = advice or first.advice
    raise DataLossError(*place, advice=advice) if advice else DataLossError(*place)


def tell(loss: Loss) -> None:
    """Log a loss that is counted and lets the reader go on."""
    log.warning(
        "messages.lost",
        queue=str(loss.queue),
        wanted=loss.wanted,
        found=loss.found,
        count=loss.count,
        reason=loss.what,
    )
