"""Where an export or a replay goes on in a queue, and what is lost by that.

It stands at an offset of each queue and may know the mark of the message before it (`checkpoint`).
What has happened to the queue since is told by its bounds and by that message as it is now:

end below the offset               the topic was made anew, or the store was replaced; or the queue
                                   was cut short, as by a failover (`cut_short` tells which)
another message before the offset  the same, and the queue has become longer since
begin behind the offset            messages were removed before they were read
a queue that is new, behind 0      the same
no such queue                      it went away, with what was not read of it

Whoever writes marks also notes the offsets of all queues that there are, so a queue without one is
new. Of what was written without marks, as before this version, only the bounds are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.losses import (
    MADE_ANEW,
    READ_AGAIN,
    Loss,
    begins_late,
    ends_early,
    is_away,
    refuse,
    tell,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted


class Resumed(NamedTuple):
    """Where reading begins in a queue."""

    offset: int
    loss: Loss | None = None
    """What is not read, or not known to be read."""


def marked_places(
    stand: Checkpoint, bounds: Mapping[MessageQueue, tuple[int, int]]
) -> dict[MessageQueue, int]:
    """Offsets of the messages whose marks are to be compared, where they can still be stored."""
    found = {}
    for queue in stand.marks.keys() & bounds.keys():
        low, high = bounds[queue]
        at = stand.offsets[queue]
        # At the queue's first offset the message before it is no longer stored.
        if low < at <= high:
            found[queue] = at - 1
    return found


def others(
    stand: Checkpoint,
    bounds: Mapping[MessageQueue, tuple[int, int]],
    now: Mapping[MessageQueue, Mark],
) -> list[MessageQueue]:
    """Queues that are not as they were: they end too early, or have other messages.

    Args:
        stand: What was read before.
        bounds: Of the queues, as they are now.
        now: Marks of the messages of `marked_places`, where they are stored.
    """
    return [
        queue
        for queue in stand.offsets.keys() & bounds.keys()
        if bounds[queue][1] < stand.offsets[queue]
        or (queue in now and now[queue] != stand.marks.get(queue))
    ]


def is_known(queue: MessageQueue, stand: Checkpoint) -> bool:
    """Whether the stand says where to go on: it has the queue, or its topic but not the queue."""
    return queue in stand.offsets or any(each.topic == queue.topic for each in stand.marks)


def resume(
    queue: MessageQueue,
    stand: Checkpoint,
    bounds: tuple[int, int],
    now: Mark | None,
    cut: int | None = None,
) -> Resumed:
    """Where reading goes on in one queue.

    Args:
        queue: The queue.
        stand: What was read before.
        bounds: The queue's first stored offset, and the one behind its last.
        now: Mark of the message before the offset, if it is stored.
        cut: Up to where it is as it was, of a queue that was cut short (`cut_short.cuts`).
    """
    low, high = bounds
    at = stand.offsets.get(queue)
    was = stand.marks.get(queue)
    if at is None:
        # A first run begins with what there is, and misses nothing.
        if low == 0 or not is_known(queue, stand):
            return Resumed(low)
        return Resumed(low, Loss(queue, 0, low, low, begins_late(low)))
    # Before the ends are compared: they would make it look like a queue made anew.
    if cut is not None:
        what = f"it was read up to offset {at}, and it is the same queue up to {cut}: its last "
        what += f"{counted(at - cut, 'message')} are lost, as a slave that lacked them became "
        what += "master, or the store was restored; whoever goes on reads nothing twice"
        return Resumed(cut, Loss(queue, at, cut, at - cut, what))
    if high < at:
        what = f"{ends_early(at, high)}: {MADE_ANEW}; {READ_AGAIN}"
        return Resumed(low, Loss(queue, at, high, low, what))
    # An unknown mark proves nothing.
    if None not in (was, now) and was != now:
        what = f"{_other(at, was, now)}: {MADE_ANEW}; {READ_AGAIN}"
        return Resumed(low, Loss(queue, at, high, low, what))
    if at < low:
        what = f"offsets {at} to {low - 1} ({counted(low - at, 'message')}) were removed before "
        what += f"they were read; the queue now begins at {low}"
        return Resumed(low, Loss(queue, at, low, low - at, what))
    return Resumed(at)


@dataclass(frozen=True, slots=True)
class Gone(Loss):
    """A queue that was read and is not there; told once, as long as it does not come back."""


def left(queue: MessageQueue, stand: Checkpoint, end: int | None = None) -> Loss | None:
    """What is lost of a queue that was read, and that its topic does not have any more.

    Args:
        queue: The queue.
        stand: What was read before.
        end: The offset behind its last where it is still stored, and not given out; None if it is
            not stored.
    """
    at = stand.offsets[queue]
    if end is None or end < at:
        what = f"there is no such queue any more; it was read up to offset {at}"
        # The loss was reported when the queue went missing.
        return None if queue in stand.gone else Gone(queue, at, at, 0, what)
    # A queue that was read to its end loses nothing.
    return Loss(queue, at, end, end - at, is_away(queue, at, end)) if end > at else None


def moved_on(
    stand: Checkpoint, moved: Mapping[MessageQueue, tuple[int, Mark | None]]
) -> Checkpoint:
    """The stand after some queues were read up to offsets; marks are of the message before."""
    marks = {queue: mark for queue, mark in stand.marks.items() if queue not in moved}
    marks |= {queue: mark for queue, (_, mark) in moved.items() if mark is not None}
    offsets = {**stand.offsets, **{queue: at for queue, (at, _) in moved.items()}}
    # A queue that is read again is no longer gone.
    return Checkpoint(offsets, marks, stand.gone - moved.keys())


def check_unchanged(stand: Checkpoint, now: Mapping[MessageQueue, Mark]) -> None:
    """Make sure that what was read meanwhile is of the queues that it was to be read of.

    Args:
        stand: What had been read before.
        now: Marks of the messages before its offsets, as they are now.

    Raises:
        DataLossError: A queue is another one.
    """
    for queue, mark in sorted(now.items()):
        was = stand.marks.get(queue)
        if was is not None and was != mark:
            at = stand.offsets[queue]
            what = f"{_other(at, was, mark)}: {MADE_ANEW}, or cut short, while it was read"
            raise DataLossError(
                str(queue),
                at,
                at,
                what,
                advice="run the job again, which then tells what was lost",
            )


class Losses:
    """Stops a job at losses, or counts and tells them and lets it go on.

    Args:
        fails: Whether it stops.
        advice: What the error says that can be done.
    """

    def __init__(self, *, fails: bool, advice: str) -> None:
        self.fails = fails
        self.advice = advice
        self.count = 0
        """Messages lost so far, as far as one knows: at least so many."""
        self.gone: set[MessageQueue] = set()
        """Queues that are not there any more."""

    def judge(self, found: Iterable[Loss | None]) -> None:
        """Tell of losses.

        Raises:
            DataLossError: There are some, and that is to fail; it names the first.
        """
        losses = sorted((loss for loss in found if loss is not None), key=lambda loss: loss.queue)
        # Before any loss is counted or logged: the error reports all of them.
        if losses and self.fails:
            refuse(losses, self.advice)
        for loss in losses:
            self.count += loss.count
            if isinstance(loss, Gone):
                self.gone.add(loss.queue)
            tell(loss)


def _other(at: int, was: Mark | None, now: Mark | None) -> str:
    stored = f"stored at {now.store_ms} ms and not at {was.store_ms} ms" if was and now else ""
    return f"offset {at - 1} has another message than the one that was read ({stored})"
