"""What a Delta table notes of each queue (`notes`), as its transactions.

An application (`txn`) for each number, which is its version. Applications cannot be listed, only
asked for by name; so one more for each topic and broker says how many queue ids to ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Final

from pocketmq.pipeline.lake.notes import GONE, OFFSET, Moves, Scope, name_of
from pocketmq.pipeline.progress.checkpoint import Checkpoint, Mark
from pocketmq.protocol.messages.message import MessageQueue

if TYPE_CHECKING:
    from deltalake import DeltaTable

_QUEUES: Final = "pocketmq.queues:"
_MARKED: Final = "pocketmq.marked:"
_STORE_MS: Final = "pocketmq.store-ms:"
_POSITION: Final = "pocketmq.position:"


def stand(table: DeltaTable, scope: Scope) -> Checkpoint:
    """How far a table goes in the queues of these topics and brokers that it has."""

    def versions(kind: str, of: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        said = {queue: table.transaction_version(name_of(kind, queue)) for queue in of}
        return {queue: version for queue, version in said.items() if version is not None}

    offsets = versions(OFFSET, _candidates(table, scope))
    marked = [queue for queue, at in versions(_MARKED, offsets).items() if at == offsets[queue]]
    times, positions = versions(_STORE_MS, marked), versions(_POSITION, marked)
    marks = {each: Mark(times[each], positions[each]) for each in marked}
    gone = {queue for queue, at in versions(GONE, offsets).items() if at == offsets[queue]}
    return Checkpoint(offsets, marks, gone)


def transactions(table: DeltaTable | None, moved: Moves) -> list[tuple[str, int]]:
    """Applications and versions for a commit.

    Args:
        table: Before the commit; None if there is none yet.
        moved: How far the commit goes.
    """
    return [*_of_moves(moved), *_queue_counts(table, moved)]


def _of_moves(moved: Moves) -> Iterator[tuple[str, int]]:
    """Applications and versions, which say where each queue ends; a mark only if it has one."""
    for queue, move in moved.items():
        yield name_of(OFFSET, queue), move.end
        yield name_of(_MARKED, queue), move.end if move.mark is not None else -1
        if move.mark is not None:
            yield name_of(_STORE_MS, queue), move.mark.store_ms
            yield name_of(_POSITION, queue), move.mark.position
        yield name_of(GONE, queue), move.end if move.is_gone else -1


def _candidates(table: DeltaTable, scope: Scope) -> set[MessageQueue]:
    """Queues that the table may have. One of an earlier version does not say how many; then as long
    as each has the next."""
    found = set(scope.queues)
    for topic in scope.topics:
        for broker in scope.brokers:
            said = table.transaction_version(f"{_QUEUES}{topic}/{broker}")
            for number in count() if said is None else range(said):
                queue = MessageQueue(topic, broker, number)
                if said is None and table.transaction_version(name_of(OFFSET, queue)) is None:
                    break
                found.add(queue)
    return found


def _queue_counts(table: DeltaTable | None, moved: Moves) -> Iterator[tuple[str, int]]:
    """For each topic and broker one more than the highest queue id that the table has ever had."""
    most: dict[str, int] = {}
    for queue in moved:
        name = f"{_QUEUES}{queue.topic}/{queue.broker_name}"
        most[name] = max(most.get(name, 0), queue.queue_id + 1)
    for name, number in most.items():
        said = None if table is None else table.transaction_version(name)
        if said is None or said < number:
            yield name, number
