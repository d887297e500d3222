"""Tells a queue that was cut short from one that was made anew.

    read       [e............................mark]      e: an early message, whose mark is known
    cut short  [e..................]                    a slave without the last ones became master
               [e..................nnnnnnnnnnnnnnn]     the same, and new ones came since
    made anew  [nnnnnnnnnnnnnnnnnnn]                    deleted and created, or another store

Where the early message is as it was, the queue is the one that was read. Where nothing is known of
one, or it is not stored any more, store times tell: in a queue made anew all messages are younger
than those that were read, and so are the new ones in one that was cut short. Of one millisecond,
what lies behind in the log is younger. Where clocks contradict that, a queue counts as made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping

from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.progress.marks import read_marks
from pocketmq.pipeline.topics.cluster_client import ClusterClient
from pocketmq.protocol.messages.message import MessageQueue

Marks = Mapping[MessageQueue, Mark]
Looks = Generator[Offsets, Marks, Offsets]
"""Asks for the marks of messages, is sent them, and returns where queues were cut short."""


async def cuts(
    client: ClusterClient,
    group: str,
    stand: Checkpoint,
    queues: Collection[MessageQueue],
    lows: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
) -> Offsets:
    """Those of the queues that were cut short, and where: behind what is left of what was read.

    Args:
        client: Asks the brokers.
        group: Group to pull as.
        stand: What was read.
        queues: Queues that are not as they were.
        lows: Their first stored offsets; of empty ones nothing.
        ends: One behind their last offsets.
    """
    looks = _looks(stand, queues, lows, ends)
    try:
        places = next(looks)
        # A generator asks for several rounds of marks, so one search serves both brokers and files.
        while True:
            places = looks.send(await read_marks(client, group, places))
    except StopIteration as done:
        found: Offsets = done.value
        return found


def cuts_by(
    marks: Callable[[Offsets], Marks],
    stand: Checkpoint,
    queues: Collection[MessageQueue],
    lows: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
) -> Offsets:
    """The same, where marks are read at once, as from a store."""
    looks = _looks(stand, queues, lows, ends)
    try:
        places = next(looks)
        while True:
            places = looks.send(marks(places))
    except StopIteration as done:
        found: Offsets = done.value
        return found


def _looks(
    stand: Checkpoint,
    queues: Collection[MessageQueue],
    lows: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
) -> Looks:
    # An empty queue has no message to compare.
    stored = [queue for queue in queues if lows.get(queue, ends[queue]) < ends[queue]]
    places = {queue: _early_place(queue, stand, lows[queue], ends[queue]) for queue in stored}
    now = (yield places) if places else {}
    same = [queue for queue in now if _is_same(queue, stand, places[queue], now[queue])]
    return (yield from _younger(stand, same, lows, ends))


def _early_place(queue: MessageQueue, stand: Checkpoint, low: int, end: int) -> int:
    early = stand.early.get(queue)
    # If the early message was removed, the first one that is left is compared.
    return early.offset if early is not None and low <= early.offset < end else low


def _is_same(queue: MessageQueue, stand: Checkpoint, place: int, now: Mark) -> bool:
    early, last = stand.early.get(queue), stand.marks.get(queue)
    if early is not None and early.offset == place:
        return early.mark == now
    # It is older than what was read, so the queue was not made anew.
    return last is not None and now <= last


def _younger(
    stand: Checkpoint,
    queues: Collection[MessageQueue],
    lows: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
) -> Looks:
    """The first message of each queue that is younger than those that were read; or its end."""
    # Bisected: a queue's messages are in order of time, so few have to be asked for.
    found = {queue: min(stand.offsets[queue], ends[queue]) for queue in queues}
    low = {queue: lows[queue] for queue in queues if queue in stand.marks}
    while places := {
        queue: (low[queue] + found[queue]) // 2 for queue in low if low[queue] < found[queue]
    }:
        now = yield places
        for queue, middle in places.items():
            # A message that is no longer stored counts as old.
            if queue in now and now[queue] > stand.marks[queue]:
                found[queue] = middle
            else:
                low[queue] = middle + 1
    # A queue that still has all that was read was not cut short.
    return {queue: at for queue, at in found.items() if at < stand.offsets[queue]}
