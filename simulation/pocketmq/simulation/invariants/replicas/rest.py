"""At rest all replicas are the same: log, epochs, queues, topics, groups (I-4, I-5, I-10, I-12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

SHOWN = 3


class ReplicaAtRest(NamedTuple):
    """What a replica has when nothing happens any more."""

    log_end: int
    epochs: Sequence[tuple[int, int]]
    """Epoch and offset at which it began."""
    queues: Mapping[tuple[str, int], Sequence[object]]
    """Topic and queue -> its entries."""
    topics: Sequence[str]
    groups: Sequence[str]
    topic_version: str
    """DataVersion of the topics."""


def difference(replicas: Mapping[str, ReplicaAtRest]) -> str | None:
    """In words, what is not equal on all; None when all is."""
    ends = {each.log_end for each in replicas.values()}
    if len(ends) > 1:
        return f"at rest the logs end at {sorted(ends)}"
    for what, values in (
        ("other topics", {tuple(sorted(each.topics)) for each in replicas.values()}),
        ("other groups", {tuple(sorted(each.groups)) for each in replicas.values()}),
        ("other epochs", {tuple(each.epochs) for each in replicas.values()}),
        ("other versions of their topics", {each.topic_version for each in replicas.values()}),
    ):
        if len(values) > 1:
            return f"at rest the replicas have {what} each: {values}"
    for place in sorted(set[tuple[str, int]]().union(*(each.queues for each in replicas.values()))):
        if len({tuple(each.queues.get(place, ())) for each in replicas.values()}) > 1:
            names = ", ".join(sorted(replicas)[:SHOWN])
            return f"at rest queue {place[1]} of {place[0]} leads elsewhere on each of {names}"
    return None
