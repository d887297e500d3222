"""What a stream would lose without a word: found by comparing its checkpoint with the cluster.

begin behind the checkpoint     retention was faster
end below the checkpoint        the topic was made anew, or the broker's store was lost; or the
                                queue was cut short, as by a failover (`cut_short` tells which)
another mark at the checkpoint  the same, and the queue has become longer since
end below what was seen of it   the queue was cut short behind what was read
a queue that is new, behind 0   its first messages were removed before the stream knew of it
a queue that is gone            not all of it was read
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.cut_short import cuts
from pocketmq.pipeline.progress.losses import Loss, begins_late, ends_early, is_away, refuse, tell
from pocketmq.pipeline.progress.marks import read_marks
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted


class Kind(Enum):
    """What has happened."""

    REMOVED = "removed"
    """Retention was faster than the stream."""
    SHORT = "short"
    """The queue ends before a batch that was planned does."""
    LATE = "late"
    """A new queue does not begin at 0."""
    UNREADABLE = "unreadable"
    """A queue's broker has it and does not give it out."""
    CUT = "cut"
    """The queue is the same without its last messages: a slave that lacked them became master."""
    CUT_UNREAD = "cut unread"
    """The same, and none of those messages was read."""
    REMADE = "remade"
    DELETED = "deleted"

    @property
    def is_of_queue(self) -> bool:
        """Whether the queue itself is gone, with messages that nobody may have seen."""
        return self in (Kind.REMADE, Kind.DELETED)

    @property
    def moves_back(self) -> bool:
        """Whether the message before the checkpoint is gone, so that reading goes on before it."""
        return self in (Kind.REMADE, Kind.CUT)


@dataclass(frozen=True, slots=True)
class StreamLoss(Loss):
    """Messages of one queue that a stream will not read."""

    kind: Kind
    mark: Mark | None = None
    """Of the message before `wanted`, if it is known: tells queues of one name apart."""

    @property
    def advice(self) -> str:
        """What option failOnDataLoss=false would do."""
        if self.kind is Kind.CUT:
            return (
                f"nothing is read twice: set failOnDataLoss=false to go on at offset {self.found}; "
                f"rows that were read of offsets from there to {self.wanted - 1} stay where they "
                "were written, and other messages come under these offsets"
            )
        if self.kind is Kind.CUT_UNREAD:
            return "set failOnDataLoss=false to go on without them; nothing is read twice"
        if self.kind is Kind.REMADE:
            return (
                "set failOnDataLoss=false to read the queue that there is now from its beginning "
                f"(what was copied into it comes a second time, and so do offsets below "
                f"{self.wanted}), or start elsewhere"
            )
        return ""


def removed(
    queue: MessageQueue, at: int, low: int, until: int, mark: Mark | None = None
) -> StreamLoss:
    """A queue that begins behind what is wanted of it.

    Args:
        queue: The queue.
        at: The offset that is wanted.
        low: Where the queue begins.
        until: The end of what is wanted.
        mark: Of the message before `at`, if it is known.
    """
    what = (
        f"offsets {at} to {low - 1} ({low - at} messages) are not stored any more; the queue now "
        f"begins at {low}"
    )
    return StreamLoss(queue, at, low, max(0, min(low, until) - at), what, Kind.REMOVED, mark)


def short(
    queue: MessageQueue, wanted: int, end: int, count: int, mark: Mark | None = None
) -> StreamLoss:
    """A queue that ends before an offset that is wanted of it; `mark` is of the message before."""
    return StreamLoss(queue, wanted, end, count, ends_early(wanted, end), Kind.SHORT, mark)


def remade(
    queue: MessageQueue,
    at: int,
    end: int,
    was: Mark | None,
    is_now: Mark | None,
    *,
    seen: int | None,
    low: int = 0,
    done: str = "read",
) -> StreamLoss:
    """A queue that is not the one that was read.

    Args:
        queue: Its name.
        at: Up to where the former one was read.
        end: The end of this one.
        was: Mark of the message before `at`.
        is_now: Mark of the message that is there now.
        seen: End of the former one when it was last looked at; None if it never was.
        low: First offset of this one.
        done: What the stream has done up to there; `planned` of a batch that is repeated.
    """
    what = f"the stream has {done} it up to offset {at}, and it ends at {end}"
    if was is not None and is_now is not None:
        what += f" with another message at offset {at - 1} (stored at {is_now.store_ms} ms and not "
        what += f"at {was.store_ms} ms)"
    what += ": the topic was made anew, or the broker's store was replaced"
    return StreamLoss(queue, at, end, _unread(at, seen) + low, what, Kind.REMADE, was)


def cut_short(
    queue: MessageQueue, at: int, cut: int, mark: Mark | None, *, seen: int | None
) -> StreamLoss:
    """A queue that has lost messages which were read.

    Args:
        queue: The queue.
        at: Up to where it was read.
        cut: Up to where it is as it was.
        mark: Of the message before `at`, if it is known.
        seen: Its end when it was last looked at, before; None if it never was.
    """
    unread = _unread(at, seen)
    what = (
        f"the stream has read it up to offset {at}, and it is the same queue up to {cut}: the "
        f"broker has lost its last {counted(at - cut + unread, 'message')}"
    )
    if unread:
        what += f", of which the stream had not read {unread}"
    what += "; a slave that lacked them became master, or the store was restored"
    return StreamLoss(queue, at, cut, at - cut + unread, what, Kind.CUT, mark)


def cut_unread(
    queue: MessageQueue, known: int, cut: int, count: int, mark: Mark | None
) -> StreamLoss:
    """A queue that has lost messages which were seen, and not read.

    Args:
        queue: The queue.
        known: Its end when it was last looked at, or the end of a batch that was planned.
        cut: Up to where it is as it was.
        count: How many of these are not read.
        mark: Of the message before `known`, if it is known.
    """
    what = (
        f"the stream has seen it up to offset {known}, and it is the same queue up to {cut}: the "
        f"broker has lost {counted(count, 'message')} before the stream read them; a slave that "
        "lacked them became master, or the store was restored"
    )
    return StreamLoss(queue, known, cut, count, what, Kind.CUT_UNREAD, mark)


def late(queue: MessageQueue, low: int) -> StreamLoss:
    """A new queue whose first messages were removed already."""
    return StreamLoss(queue, 0, low, low, begins_late(low), Kind.LATE)


def unreadable(queue: MessageQueue, at: int, end: int, mark: Mark | None = None) -> StreamLoss:
    """A queue that its broker has and does not give out any more."""
    what = is_away(queue, at, end)
    return StreamLoss(queue, at, end, end - at, what, Kind.UNREADABLE, mark)


def deleted(
    queue: MessageQueue, at: int, *, seen: int | None, mark: Mark | None = None
) -> StreamLoss:
    """A queue whose broker runs without it; `seen` is its end when it was last looked at."""
    what = f"the topic was deleted on this broker; the stream had read the queue up to offset {at}"
    return StreamLoss(queue, at, at, _unread(at, seen), what, Kind.DELETED, mark)


def _unread(at: int, seen: int | None) -> int:
    """Messages that were seen of a queue which is gone, and not read."""
    return 0 if seen is None else max(0, seen - at)


class LossPolicy:
    """Stops the stream at losses, or counts each once and lets it go on.

    Args:
        fails: What option failOnDataLoss says.
    """

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails
        self._told: dict[tuple[MessageQueue, int, Mark | None], StreamLoss] = {}
        """The largest loss at each place; a stream that waits there may meet it again, grown."""

    @property
    def lost(self) -> int:
        """Messages counted so far."""
        return sum(loss.count for loss in self._told.values())

    @property
    def cut(self) -> int:
        """Queues that were cut short, so far."""
        return sum(loss.kind is Kind.CUT for loss in self._told.values())

    @property
    def remade(self) -> int:
        """Queues that were deleted or made anew, so far."""
        return sum(loss.kind.is_of_queue for loss in self._told.values())

    def judge(self, losses: Collection[StreamLoss]) -> None:
        """Tell of losses.

        Raises:
            DataLossError: There are some, and that is to fail; it names the first.
        """
        # Before any is counted: a stream that stops has not continued without these messages.
        if losses and self.fails:
            refuse(losses)
        for loss in losses:
            place = (loss.queue, loss.wanted, loss.mark)
            before = self._told.get(place)
            # This loss was already reported, as large or larger.
            if before is not None and before.kind is loss.kind and loss.count <= before.count:
                continue
            count = loss.count if before is None else max(loss.count, before.count)
            self._told[place] = replace(loss, count=count)
            tell(self._told[place])

    def take_back(self, queues: Collection[MessageQueue]) -> None:
        """Queues can be read: what was counted because they could not is not lost."""
        back = [
            place
            for place, loss in self._told.items()
            if loss.kind is Kind.UNREADABLE and loss.queue in queues
        ]
        for place in back:
            del self._told[place]


@dataclass(frozen=True, slots=True)
class Begins:
    """Where reading goes on in each queue that there is, and what is lost by that."""

    offsets: Offsets
    lows: Offsets
    """First offsets of the queues that have something to read."""
    losses: Sequence[StreamLoss]


async def begins(
    client: ClusterClient,
    group: str,
    start: Checkpoint,
    ends: Mapping[MessageQueue, int],
    to_compare: Collection[MessageQueue],
    *,
    seen: Mapping[MessageQueue, int],
    until: Mapping[MessageQueue, int] | None = None,
) -> Begins:
    """Find out where reading goes on.

    Args:
        client: Asks the brokers.
        group: Group to pull as.
        start: Where the stream stands.
        ends: The queues that there are, and their ends.
        to_compare: Queues whose marks are compared.
        seen: Ends of the queues when they were last looked at.
        until: Where a batch that was planned before ends.
    """
    is_planning = until is None
    until = ends if until is None else until
    found: Offsets = {}
    losses: list[StreamLoss] = []
    known = {queue: mark for queue, mark in start.marks.items() if queue in to_compare}
    # A queue that ends before the checkpoint has no message to compare.
    places = {
        queue: start.offsets[queue] - 1
        for queue in known
        if queue in ends and ends[queue] >= start.offsets[queue]
    }
    now = await read_marks(client, group, places)
    gone = {
        queue
        for queue, end in ends.items()
        if end < start.offsets.get(queue, 0) or (queue in now and now[queue] != known[queue])
    }
    # A repeated batch was judged when it was planned.
    if is_planning:
        shorter = [queue for queue in ends.keys() - gone if seen.get(queue, 0) > ends[queue]]
        gone |= await _made_anew(client, group, start, shorter, ends)
    # A queue made anew is read from its beginning, since all of it is new.
    begun = {queue: 0 if queue in gone else start.offsets.get(queue, 0) for queue in ends}
    # Only of queues with something to read: where an empty one begins does not matter.
    lows = await client.starts([queue for queue, end in ends.items() if begun[queue] < end])
    cut = await cuts(client, group, start, gone, lows, ends) if gone else {}
    begun |= cut
    for queue, end in ends.items():
        at, low = start.offsets.get(queue), lows.get(queue, begun[queue])
        if at is None and end == until[queue] == 0:
            continue  # it becomes part of the checkpoint with its first message
        # Not before the first stored message, and not after the end of this batch.
        found[queue] = min(max(begun[queue], low), end, max(begun[queue], until[queue]))
        if queue in cut and at is not None:
            was = start.marks.get(queue)
            losses.append(cut_short(queue, at, cut[queue], was, seen=seen.get(queue)))
        # The queue was not cut short, so nothing of what was read is left.
        elif queue in gone and at is not None:
            was, is_now = start.marks.get(queue), now.get(queue)
            losses.append(remade(queue, at, end, was, is_now, seen=seen.get(queue), low=low))
        elif at is None and low > 0:
            losses.append(late(queue, low))
        elif at is not None and low > at:
            losses.append(removed(queue, at, low, until[queue], start.marks.get(queue)))
        # Messages that were seen but never read are lost, even though the checkpoint fits.
        if at is not None and queue not in gone and is_planning and seen.get(queue, 0) > end:
            losses.append(cut_unread(queue, seen[queue], end, seen[queue] - end, None))
    return Begins(found, lows, losses)


async def _made_anew(
    client: ClusterClient,
    group: str,
    start: Checkpoint,
    shorter: Collection[MessageQueue],
    ends: Mapping[MessageQueue, int],
) -> set[MessageQueue]:
    """Those of the queues that have become shorter, though not by what was read, and are others."""
    early = {queue: each for queue, each in start.early.items() if queue in shorter}
    now = await read_marks(
        client,
        group,
        {queue: each.offset for queue, each in early.items() if each.offset < ends[queue]},
    )
    others = {queue for queue, mark in now.items() if mark != early[queue].mark}
    # An emptied queue has no early message left, and counts as another queue.
    return others | {queue for queue in shorter if queue in start.offsets and ends[queue] == 0}
