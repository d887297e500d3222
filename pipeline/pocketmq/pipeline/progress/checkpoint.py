"""What Spark stores between a stream's batches: offsets, and how to tell a queue made anew.

    {"Orders": {"broker-a": {"0": 23}},
     "@marks": {"Orders": {"broker-a": {"0": "1700000000000@4711"}}},
     "@early": {"Orders": {"broker-a": {"0": "3=1690000000000@815"}}},
     "@partitions": {"Orders": {"broker-a": {"0": 1207443456}}}}

Offsets have the shape of `startingOffsets`. A mark is of the last message before the offset: its
store time and its place in the log. If that offset has another mark later, the topic was deleted
and created again, or the broker's store was replaced, however long the queue has become since; or
the queue was cut short, as by a slave that lacked messages and became master. Which of these, a
second mark tells: of an early message, whose offset stands before it (`cut_short`). The numbers
are those of `kafkaCompatible` streams (`partition_numbers`). No topic has `@` in its name.
Checkpoints without marks are read too; they notice less.

Spark stores where a batch ends before it runs it, and not where the first one begins: that it asks
again when a query is started whose first batch has failed. So the end of the first batch also says
where it begins, as `@begin`, of topics and of stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pocketmq.pipeline.options.offsets import Offsets, from_tree, to_tree
from pocketmq.protocol.messages.message import MessageQueue

MARKS: Final = "@marks"
EARLY: Final = "@early"
PARTITIONS: Final = "@partitions"
RENAMED: Final = "@renamed"
GONE: Final = "@gone"
BEGIN: Final = "@begin"
"""Where a stream's first batch begins, in the tree of its end."""
COUNTS: Final = "@counts"
"""What the source has counted, beside the ends of its queues; for `stream_figures`."""


class Mark(NamedTuple):
    """What tells a message from another one at the same offset."""

    store_ms: int
    position: int
    """Byte in the broker's log."""

    def __str__(self) -> str:
        return f"{self.store_ms}@{self.position}"

    @classmethod
    def of(cls, text: str) -> Mark:
        """The reverse of `str`."""
        store_ms, _, position = text.partition("@")
        return cls(int(store_ms), int(position))


class Early(NamedTuple):
    """A message far before the offset, so that it is there when the last ones are cut off."""

    offset: int
    mark: Mark

    def __str__(self) -> str:
        return f"{self.offset}={self.mark}"

    @classmethod
    def of(cls, text: str) -> Early:
        """The reverse of `str`."""
        offset, _, mark = text.partition("=")
        return cls(int(offset), Mark.of(mark))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a stream stands."""

    offsets: Offsets
    """The next offset of each queue."""
    marks: Mapping[MessageQueue, Mark] = field(default_factory=dict)
    """Of the message before it; queues without one are missing."""
    gone: Set[MessageQueue] = frozenset()
    """Of replays, and of streams of stores by their queues: queues that have gone away, as was
    told; they may come back."""
    early: Mapping[MessageQueue, Early] = field(default_factory=dict)
    """Of streams: an early message of each queue; queues without one are missing."""
    partitions: Mapping[MessageQueue, int] = field(default_factory=dict)
    """Of `kafkaCompatible` streams: the numbers of all queues."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Brokers that have another name than where the batch begins: the new one by the former."""

    def tree(self) -> dict[str, Any]:
        """In the shape of the JSON."""
        tree: dict[str, Any] = dict(to_tree(self.offsets))
        # Empty entries are left out, so that the tree is the same as for plain offsets.
        if self.marks:
            tree[MARKS] = to_tree({queue: str(mark) for queue, mark in self.marks.items()})
        if self.early:
            tree[EARLY] = to_tree({queue: str(early) for queue, early in self.early.items()})
        if self.partitions:
            tree[PARTITIONS] = to_tree(self.partitions)
        if self.renamed:
            tree[RENAMED] = dict(self.renamed)
        if self.gone:
            # The tree's form requires offsets; only the queues are read back.
            tree[GONE] = to_tree({queue: self.offsets[queue] for queue in self.gone})
        return tree

    @classmethod
    def of_tree(cls, tree: Mapping[str, Any]) -> Checkpoint:
        """The reverse; the tree is sound, since we made it."""
        marks: dict[MessageQueue, str] = from_tree(tree.get(MARKS, {}))
        early: dict[MessageQueue, str] = from_tree(tree.get(EARLY, {}))
        offsets = from_tree({topic: each for topic, each in tree.items() if topic[:1] != "@"})
        return cls(
            offsets,
            {queue: Mark.of(text) for queue, text in marks.items()},
            from_tree(tree.get(GONE, {})).keys(),
            early={queue: Early.of(text) for queue, text in early.items()},
            partitions=from_tree(tree.get(PARTITIONS, {})),
            renamed=dict(tree.get(RENAMED, {})),
        )

    def has_moved(self, queue: MessageQueue, since: Checkpoint) -> bool:
        """Whether a queue stands elsewhere than it did, or is another one."""
        return (self.offsets.get(queue), self.marks.get(queue)) != (
            since.offsets.get(queue),
            since.marks.get(queue),
        )


def with_begin(end: Mapping[str, Any], begin: Mapping[str, Any]) -> dict[str, Any]:
    """The end of a stream's first batch, which says where the batch begins."""
    # `begin` may have a begin of its own, which must not nest when the first batch is repeated.
    return {**end, BEGIN: {name: each for name, each in begin.items() if name != BEGIN}}


def begin_of(end: Mapping[str, Any], start: Mapping[str, Any]) -> Mapping[str, Any]:
    """Where a batch begins: of the first one as its end says, of others where Spark says."""
    if BEGIN in start:  # it is the end of the first batch
        return start
    found: Mapping[str, Any] = end.get(BEGIN, start)
    return found
