"""`Leadership`: what a leader knows of the other members, and what follows for commits. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NEVER = float("-inf")


@dataclass(slots=True)
class Progress:
    """What a leader knows of one other member."""

    next_index: int
    match_index: int = 0
    is_waiting: bool = False
    """An `Append` is under way; the next one is sent on its reply or with the next heartbeat."""
    answered_at: float = NEVER
    """When the last message that it answered was sent."""


class Leadership:
    """One term of leading.

    Args:
        others: The other members.
        first_index: The first entry of this leadership, an empty one.
        since: When it began.
    """

    def __init__(self, others: Sequence[str], first_index: int, since: float) -> None:
        self.first_index = first_index
        self.since = since
        self.beat_at = NEVER
        """When the last heartbeat was sent."""
        self.own_match = 0
        """Last entry of this leadership that is on the own disk."""
        self.progress = {member: Progress(first_index) for member in others}

    def match_index(self, majority: int) -> int:
        """The last entry that so many members have on their disks, the leader included."""
        matches = [each.match_index for each in self.progress.values()]
        # In descending order, a majority has reached the value at the majority's place.
        return sorted([*matches, self.own_match], reverse=True)[majority - 1]

    def answered_at(self, majority: int, now: float) -> float:
        """When the messages were sent that so many members have answered, the leader included."""
        answered = [each.answered_at for each in self.progress.values()]
        return sorted([*answered, now], reverse=True)[majority - 1]
