"""What a table notes of each queue: how far it was exported, and which message comes before that.

    pocketmq.offset:orders/broker-a/0    20
    pocketmq.mark:orders/broker-a/0      20 1700000000000@4711

A mark (`checkpoint.Mark`) names the offset that it belongs to: an earlier version moves offsets and
leaves marks as they are. Tables of earlier versions have offsets only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pocketmq.pipeline.checkpoint import Checkpoint, Mark
from pocketmq.pipeline.offsets import Offsets
from pocketmq.protocol.message import MessageQueue

OFFSET: Final = "pocketmq.offset:"
MARK: Final = "pocketmq.mark:"


class Move(NamedTuple):
    """How far one commit goes in a queue."""

    start: int
    end: int
    mark: Mark | None = None
    """Of the message before the end."""
    is_anew: bool = False
    """Whether it begins before what the table has: the topic was made anew."""


Moves = Mapping[MessageQueue, Move]


def name_of(kind: str, queue: MessageQueue) -> str:
    """Under which name a note of a queue stands."""
    return f"{kind}{queue.topic}/{queue.broker_name}/{queue.queue_id}"


def texts(moved: Moves) -> dict[str, str]:
    """The notes of a commit, as text by name."""
    noted = {name_of(OFFSET, queue): str(move.end) for queue, move in moved.items()}
    for queue, move in moved.items():
        noted[name_of(MARK, queue)] = "" if move.mark is None else f"{move.end} {move.mark}"
    return noted


def of_texts(queues: Sequence[MessageQueue], noted: Callable[[str], str | None]) -> Checkpoint:
    """The reverse: how far the table goes in those queues that it has.

    Args:
        queues: Those that are asked for.
        noted: The text under a name; None if there is none.
    """
    offsets: Offsets = {}
    marks: dict[MessageQueue, str] = {}
    for queue in queues:
        offset = noted(name_of(OFFSET, queue))
        if offset is not None:
            offsets[queue] = int(offset)
            marks[queue] = noted(name_of(MARK, queue)) or ""
    return Checkpoint(offsets, marks_of(offsets, marks))


def marks_of(offsets: Offsets, marks: Mapping[MessageQueue, str]) -> dict[MessageQueue, Mark]:
    """The marks, as text, that belong to these offsets."""
    found = {}
    for queue, text in marks.items():
        offset, _, mark = text.partition(" ")
        if mark and int(offset) == offsets[queue]:
            found[queue] = Mark.of(mark)
    return found
