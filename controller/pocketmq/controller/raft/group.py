"""Who is in a group, which role a member has, and what its shell has to do. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from pocketmq.controller.raft.messages import Entry, Envelope, Snapshot, Write


class Role(Enum):
    """What a member is at the moment."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@dataclass(frozen=True, slots=True)
class Group:
    """A member and its group; who belongs to it never changes while it runs."""

    own_id: str
    members: tuple[str, ...]
    """All ids, the own one too."""
    heartbeat_s: float = 0.2
    election_s: float = 1.0
    """Silence of a leader after which others are elected at the earliest."""

    def __post_init__(self) -> None:
        # The votes of a member that is not in the list would not count.
        if self.own_id not in self.members or len(set(self.members)) != len(self.members):
            members = ", ".join(self.members)
            raise ValueError(
                f"the ids of the members must all be different and include {self.own_id!r}, but "
                f"are {members}"
            )

    @property
    def others(self) -> list[str]:
        """All but the own id."""
        return [member for member in self.members if member != self.own_id]

    @property
    def majority(self) -> int:
        """How many members are more than half."""
        return len(self.members) // 2 + 1


@dataclass(slots=True)
class Step:
    """What the shell has to do, in this order."""

    write: Write | None = None
    messages: list[Envelope] = field(default_factory=list)
    applied: list[Entry | Snapshot] = field(default_factory=list)
    """Committed entries; a snapshot replaces the state."""
