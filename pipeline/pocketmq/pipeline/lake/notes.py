"""What a table notes of each queue: how far it was exported, and which message comes before that.

    pocketmq.offset:orders/broker-a/0    20
    pocketmq.mark:orders/broker-a/0      20 1700000000000@4711
    pocketmq.gone:orders/broker-a/0      20

A mark (`checkpoint.Mark`) names the offset that it belongs to: an earlier version moves offsets and
leaves marks as they are. So does the note of a queue that has gone away, which is empty for others.
Tables of earlier versions have offsets only, or no such notes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from pocketmq.pipeline.options.offsets import Offsets
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.protocol.messages.message import MessageQueue

OFFSET: Final = "pocketmq.offset:"
MARK: Final = "pocketmq.mark:"
GONE: Final = "pocketmq.gone:"


class Scope(NamedTuple):
    """What an export reads."""

    topics: Collection[str]
    brokers: Collection[str]
    """Those whose queues it can find out about; a table may know queues of others."""
    queues: Collection[MessageQueue]
    """Those that there are now."""


class Move(NamedTuple):
    """How far one commit goes in a queue."""

    start: int
    end: int
    mark: Mark | None = None
    """Of the message before the end."""
    is_anew: bool = False
    """Whether it begins before what the table has: the topic was made anew."""
    is_gone: bool = False
    """Whether the queue has gone away, and the table keeps how far it went."""


Moves = Mapping[MessageQueue, Move]


def name_of(kind: str, queue: MessageQueue) -> str:
    """Under which name a note of a queue stands."""
    return f"{kind}{queue.topic}/{queue.broker_name}/{queue.queue_id}"


def texts(moved: Moves) -> dict[str, str]:
    """The notes of a commit, as text by name."""
    noted = {name_of(OFFSET, queue): str(move.end) for queue, move in moved.items()}
    for queue, move in moved.items():
        noted[name_of(MARK, queue)] = "" if move.mark is None else f"{move.end} {move.mark}"
        noted[name_of(GONE, queue)] = str(move.end) if move.is_gone else ""
    return noted


def of_texts(topics: Collection[str], noted: Mapping[str, str]) -> Checkpoint:
    """The reverse: how far the table goes in all queues of these topics that it has.

    Args:
        topics: Those that are asked for.
        noted: All notes of the table, by name; other names may be among them.
    """
    offsets: Offsets = {}
    for name, offset in noted.items():
        if name.startswith(OFFSET):
            topic, _, place = name.removeprefix(OFFSET).partition("/")
            broker, _, queue_id = place.rpartition("/")
            if topic in topics:
                offsets[MessageQueue(topic, broker, int(queue_id))] = int(offset)
    return stand_of(offsets, noted)


def stand_of(offsets: Offsets, noted: Mapping[str, str]) -> Checkpoint:
    """How far a table goes, with the marks and the queues gone away that belong to these offsets.

    Args:
        offsets: Of all queues that are asked for and that it has.
        noted: Its other notes, by name.
    """
    marks = {}
    gone = set()
    for queue, at in offsets.items():
        offset, _, mark = noted.get(name_of(MARK, queue), "").partition(" ")
        if mark and int(offset) == at:
            marks[queue] = Mark.of(mark)
        if noted.get(name_of(GONE, queue)) == str(at):
            gone.add(queue)
    return Checkpoint(offsets, marks, gone)
