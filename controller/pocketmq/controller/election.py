"""Which replica becomes master (D-30 to D-33). Pure.

Three replicas, in sync are 1 and 2, the master 1 is dead. What the last heartbeats said:

    id   alive   epoch   max offset   priority
    1    no      7       9000         5
    2    yes     7       8000         5           elected: the only living one in sync
    3    yes     7       8500         1           longer, but nobody promised that it has all
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from pocketmq.protocol.scalars import Int32, Int64

LOWEST_PRIORITY = 2**31 - 1


class Candidate(msgspec.Struct, frozen=True, array_like=True):
    """A living replica, as its last heartbeat told."""

    broker_id: Int64
    epoch: Int32 = -1
    max_offset: Int64 = -1
    priority: Int32 = LOWEST_PRIORITY
    """The smaller, the sooner among equals."""


def elect(
    candidates: Mapping[int, Candidate],
    in_sync: Collection[int],
    *,
    old_master: int | None,
    preferred: int | None = None,
    allow_unclean: bool = False,
) -> int | None:
    """The id of the master from now on; None when nobody may be.

    Args:
        candidates: Living replicas by id.
        in_sync: Those that hold everything acknowledged.
        old_master: Stays, when it may and nobody else is preferred.
        preferred: This one or nobody.
        allow_unclean: If none in sync lives, take another; that loses acknowledged messages.
    """
    chosen = _best(candidates, in_sync, old_master, preferred)
    # No replica in sync is alive: an operator may allow one that lacks messages (D-30).
    if chosen is None and allow_unclean:
        chosen = _best(candidates, candidates, old_master, preferred)
    return chosen


def _best(
    candidates: Mapping[int, Candidate],
    among: Collection[int],
    old_master: int | None,
    preferred: int | None,
) -> int | None:
    living = [candidates[each] for each in among if each in candidates]
    ids = {each.broker_id for each in living}
    # If the preferred one cannot be elected, nobody is (D-32).
    if preferred is not None:
        return preferred if preferred in ids else None
    # A living master stays, whoever asks (D-31).
    if old_master in ids:
        return old_master
    # No candidate is alive: without a master nothing is lost.
    if not living:
        return None
    return min(living, key=_rank).broker_id


def _rank(candidate: Candidate) -> tuple[int, int, int, int]:
    # Epoch before length: the longer log of an older master is not better (D-33).
    return (-candidate.epoch, -candidate.max_offset, candidate.priority, candidate.broker_id)
