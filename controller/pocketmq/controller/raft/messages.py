"""What members say to each other, and what a member keeps on disk. Values only.

Commands and snapshots are texts that this package does not look into. Terms and indices are whole
numbers from 1; 0 means "none". Times are seconds on the clock of the member that wrote them.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from pocketmq.protocol.scalars import Int64

MOST_ENTRIES = 256
"""What one `Append` holds at most."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One command at its place in the log."""

    index: Int64
    term: Int64
    """Of the leader that appended it."""
    command: str
    """Empty for the entry with which a leader begins its term."""


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """The state after every command up to `index`."""

    index: Int64
    term: Int64
    """Of the entry at `index`."""
    state: str


class VoteRequest(msgspec.Struct, frozen=True, array_like=True, tag="vote"):
    """Asks for a vote, or, as a pre-vote, whether one would be given."""

    term: Int64
    last_index: Int64
    last_term: Int64
    is_pre_vote: bool


class VoteReply(msgspec.Struct, frozen=True, array_like=True, tag="vote-reply"):
    """Answers a `VoteRequest`; a granted pre-vote repeats the term asked for."""

    term: Int64
    is_granted: bool
    is_pre_vote: bool


class Append(msgspec.Struct, frozen=True, array_like=True, tag="append"):
    """A leader's entries; without any it is a heartbeat."""

    term: Int64
    previous_index: Int64
    previous_term: Int64
    entries: Annotated[list[Entry], msgspec.Meta(max_length=MOST_ENTRIES)]
    commit_index: Int64
    sent_at: float
    """On the leader's clock; the reply repeats it."""


class AppendReply(msgspec.Struct, frozen=True, array_like=True, tag="append-reply"):
    """Answers `Append` and `Install`."""

    term: Int64
    is_match: bool
    index: Int64
    """Matched: the log equals the leader's up to here. Else: the leader should try from here."""
    sent_at: float


class Install(msgspec.Struct, frozen=True, array_like=True, tag="install"):
    """A leader's snapshot, for a member whose next entry the leader no longer has."""

    term: Int64
    snapshot: Snapshot
    sent_at: float


Message: TypeAlias = VoteRequest | VoteReply | Append | AppendReply | Install


class Envelope(msgspec.Struct, frozen=True):
    """A message and the member that it goes to."""

    to: str
    message: Message


class Write(msgspec.Struct, frozen=True):
    """What has to be on the disk before the messages of the same step may leave."""

    number: int
    """For `Raft.stored`; rises by one."""
    term: int
    vote: str
    """Who got this term's vote; empty: nobody."""
    entries: list[Entry]
    """Each replaces everything that was stored from its index on."""
    snapshot: Snapshot | None = None
    """Replaces all that was stored before; `entries` are then the whole rest of the log."""


class Stored(msgspec.Struct, frozen=True):
    """What a member finds on its disk when it starts."""

    term: int = 0
    vote: str = ""
    snapshot: Snapshot = Snapshot(0, 0, "")
    entries: list[Entry] = []
