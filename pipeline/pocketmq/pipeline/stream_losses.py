"""What a stream would lose without a word: found by comparing its checkpoint with the cluster.

end below the checkpoint        the topic was made anew, or the broker's store was lost
another mark at the checkpoint  the same, and the queue has become longer since
a queue that is new, behind 0   its first messages were removed before the stream knew of it
a queue that is gone            not all of it was read
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pocketmq.pipeline.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.cluster_client import ClusterClient
from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.marks import read_marks
from pocketmq.pipeline.offsets import Offsets
from pocketmq.pipeline.worker_log import log
from pocketmq.protocol.message import MessageQueue


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages of one queue that a stream will not read."""

    queue: MessageQueue
    wanted: int
    """Where the stream stands in it."""
    found: int
    """Where the queue begins, or ends, instead."""
    count: int
    """How many messages, as far as one knows: at least so many."""
    what: str


def remade(queue: MessageQueue, at: int, end: int, was: Mark | None, is_now: Mark | None) -> Loss:
    """A queue that is not the one that was read."""
    what = f"the stream has read it up to offset {at}, and it ends at {end}"
    if was is not None and is_now is not None:
        what += f" with another message at offset {at - 1} (stored at {is_now.store_ms} ms and not "
        what += f"at {was.store_ms} ms)"
    what += ": the topic was made anew, or the broker's store was replaced"
    return Loss(queue, at, end, 0, what)


def late(queue: MessageQueue, low: int) -> Loss:
    """A new queue whose first messages were removed already."""
    what = f"is new and begins at {low}: messages 0 to {low - 1} were removed before they were read"
    return Loss(queue, 0, low, low, what)


def unreadable(queue: MessageQueue, at: int, end: int) -> Loss:
    """A queue that its broker has and does not give out any more."""
    what = (
        f"cannot be read any more, and {end - at} messages from offset {at} on were not; give the "
        f"topic its queues back (pocketmq topic create {queue.topic} --queues "
        f"{queue.queue_id + 1}) until they are"
    )
    return Loss(queue, at, end, end - at, what)


def deleted(queue: MessageQueue, at: int) -> Loss:
    """A queue whose broker runs without it."""
    what = f"the topic was deleted on this broker; the stream had read the queue up to offset {at}"
    return Loss(queue, at, at, 0, what)


class LossPolicy:
    """Stops the stream at losses, or counts each once and lets it go on.

    Args:
        fails: What option failOnDataLoss says.
    """

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self.lost = 0
        """Messages counted so far."""
        self._told: set[tuple[MessageQueue, int, int]] = set()

    def judge(self, losses: Collection[Loss]) -> None:
        """Tell of losses.

        Raises:
            DataLossError: There are some, and that is to fail; it names the first.
        """
        if losses and self.fails:
            first = min(losses, key=lambda loss: loss.queue)
            others = f" (and {len(losses) - 1} more queues like it)" if len(losses) > 1 else ""
            raise DataLossError(str(first.queue), first.wanted, first.found, first.what + others)
        for loss in losses:
            place = (loss.queue, loss.wanted, loss.found)
            if place in self._told:
                continue
            self._told.add(place)
            self.lost += loss.count
            log.warning(
                "messages.lost",
                queue=str(loss.queue),
                wanted=loss.wanted,
                found=loss.found,
                count=loss.count,
                reason=loss.what,
            )


async def begins(
    client: ClusterClient,
    group: str,
    start: Checkpoint,
    ends: Mapping[MessageQueue, int],
    to_compare: Collection[MessageQueue],
) -> tuple[Offsets, list[Loss]]:
    """Where reading goes on in each queue that there is, and what is lost by that.

    Args:
        client: Asks the brokers.
        group: Group to pull as.
        start: Where the stream stands.
        ends: The queues that there are, and their ends.
        to_compare: Queues whose marks are compared.
    """
    found: Offsets = {}
    losses: list[Loss] = []
    anew: list[MessageQueue] = []
    known = {queue: mark for queue, mark in start.marks.items() if queue in to_compare}
    places = {
        queue: start.offsets[queue] - 1
        for queue in known
        if queue in ends and ends[queue] >= start.offsets[queue]
    }
    now = await read_marks(client, group, places)
    for queue, end in ends.items():
        at = start.offsets.get(queue)
        if at is None:
            if end > 0:
                anew.append(queue)
        elif end < at:
            losses.append(remade(queue, at, end, None, None))
            anew.append(queue)
        elif queue in now and now[queue] != known[queue]:
            losses.append(remade(queue, at, end, known[queue], now[queue]))
            anew.append(queue)
        else:
            found[queue] = at
    for queue, bounds in (await client.bounds(anew)).items():
        found[queue] = min(bounds.low, ends[queue])
        if queue not in start.offsets and bounds.low > 0:
            losses.append(late(queue, bounds.low))
    return found, losses
