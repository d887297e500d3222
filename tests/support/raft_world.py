"""A group of controllers without processes: every message, disk write and failure is an event.

`RaftWorld(seed).run()` plays a random life: messages are dropped, doubled, delayed and reordered,
members are cut off in one direction or both, crash, lose what was not synced, and have disks that
take seconds and clocks that run up to a twentieth fast or slow.
After each event it checks what Raft promises.
"""

from __future__ import annotations

import heapq
import itertools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pocketmq.controller.errors import NotLeadingError, TooManyProposalsError
from pocketmq.controller.raft import core, journal
from pocketmq.controller.raft.messages import Entry, Envelope, Message, Snapshot, VoteReply

GROUP = "test"
HEALTHY_S = 30.0
"""What the world gets after its last failure, to agree again."""


class BrokenPromiseError(AssertionError):
    """Raft broke a promise; the text names it."""


@dataclass
class Member:
    """One controller: what is on its disk, and, while it runs, its state."""

    name: str
    rate: float
    """How fast its clock runs."""
    text: str
    """Its journal, synced."""
    raft: Any = None
    life: int = 0
    """How often it was started; events of an earlier life are void."""
    waiting: list[Any] = field(default_factory=list)
    """Steps whose write is not on the disk yet."""
    is_writing: bool = False
    applied: int = 0
    state: int = 0
    """Chain of hashes over all commands applied."""
    slow_until: float = 0.0
    seen: tuple[Any, ...] = ()
    """What was checked last."""


class RaftWorld:
    """Members, a network, disks and time; all random choices come from the seed.

    Args:
        seed: Of everything.
        members: How many.
        raft: The class under test.
        compact_every: Applied entries between two snapshots.
    """

    def __init__(
        self, seed: int, *, members: int = 3, raft: Any = core.Raft, compact_every: int = 7
    ) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self._raft = raft
        self._compact_every = compact_every
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        names = [f"n{at}" for at in range(members)]
        self.members = {
            name: Member(name, self.random.uniform(0.95, 1.05), journal.header(GROUP, name))
            for name in names
        }
        self.cut: set[tuple[str, str]] = set()
        """Directions in which nothing gets through."""
        self.loss = 0.0
        self.committed: dict[int, Entry] = {}
        self.states: dict[int, int] = {0: 0}
        """State after each index."""
        self.leaders: dict[int, str] = {}
        self.entries: dict[tuple[int, int], tuple[str, int | None]] = {}
        """(index, term): command and the term before it."""
        self.votes: dict[tuple[str, int], str] = {}
        self.proposals = 0
        for name in names:
            self.start(name)

    # -- the world ------------------------------------------------------------------------------

    def at(self, delay_s: float, event: Callable[[], None]) -> None:
        """Have something happen later."""
        heapq.heappush(self._events, (self.now + delay_s, next(self._order), event))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
        self.now = end

    def clock(self, member: Member) -> float:
        """The member's own monotonic time."""
        return self.now * member.rate

    def start(self, name: str) -> None:
        """Start a member on what its disk holds."""
        member = self.members[name]
        stored, _ = journal.parse(member.text, GROUP, name)
        lines = member.text.split("\n")
        member.text = "\n".join(lines[:-1]) + "\n"  # a torn line is cut
        member.life += 1
        member.waiting, member.is_writing = [], False
        member.applied, member.state = 0, 0
        group = core.Group(name, tuple(self.members))
        member.raft = self._raft(group, stored, self.random, self.clock(member))
        self._settle(member)
        self._tick_on(member, member.life)

    def crash(self, name: str) -> None:
        """Kill a member; a write that was under way may be whole, torn, or not there at all."""
        member = self.members[name]
        if member.raft is None:
            return
        if member.waiting and member.waiting[0].write is not None:
            write = member.waiting[0].write
            line = journal.line_of(write)
            if write.snapshot is None:
                member.text += line[: self.random.choice([0, len(line) // 2, len(line)])]
        member.raft = None

    def propose(self, name: str) -> None:
        """Have a member propose a new command, if it leads."""
        member = self.members[name]
        if member.raft is None:
            return
        self.proposals += 1
        try:
            member.raft.propose(f"command {self.proposals}", self.clock(member))
        except (NotLeadingError, TooManyProposalsError):
            return
        self._settle(member)

    def run(self, rounds: int = 60) -> None:
        """A life with failures, then health; raises `BrokenPromiseError`."""
        for _ in range(rounds):
            self._fail()
            self.advance(self.random.choice([0.02, 0.05, 0.3, 1.0, 2.5]))
            for name in self.members:
                if self.random.random() < 0.6:
                    self.propose(name)
        self.heal()
        self.advance(HEALTHY_S)
        self.check_agreement()

    def heal(self) -> None:
        """End all failures."""
        self.cut, self.loss = set(), 0.0
        for name, member in self.members.items():
            member.slow_until = 0.0
            if member.raft is None:
                self.start(name)

    def check_agreement(self) -> None:
        """Once all is well: one leader, which serves, and everybody applied everything."""
        leaders = [each for each in self.members.values() if each.raft.is_leader]
        if len(leaders) != 1:
            raise BrokenPromiseError(f"{len(leaders)} leaders although nothing fails any more")
        [leader] = leaders
        before = max(self.committed, default=0)
        self.propose(leader.name)
        self.advance(2.0)
        if not leader.raft.serves(self.clock(leader)):
            raise BrokenPromiseError("the leader of a healthy group does not serve")
        for member in self.members.values():
            if member.applied <= before or member.state != leader.state:
                raise BrokenPromiseError(f"{member.name} does not catch up in a healthy group")

    # -- failures -------------------------------------------------------------------------------

    def _fail(self) -> None:
        names = list(self.members)
        one = self.random.choice(names)
        kind = self.random.randrange(11)
        if kind == 0:
            self.cut = {(one, each) for each in names} | {(each, one) for each in names}
        elif kind == 1:
            other = self.random.choice(names)
            self.cut |= {(one, other)}
        elif kind == 2:
            self.cut = set()
        elif kind == 3:
            self.loss = self.random.choice([0.0, 0.1, 0.4])
        elif kind == 4:
            self.crash(one)
        elif kind in (5, 6):
            for name, member in self.members.items():
                if member.raft is None:
                    self.start(name)
        elif kind == 7:
            self.members[one].slow_until = self.now + self.random.choice([0.5, 3.0])
        elif kind in (8, 9):
            self.crash(one)
            self.start(one)
        elif self.random.random() < 0.3:  # the power of all fails at once
            for name in names:
                self.crash(name)

    # -- the shell of one member ----------------------------------------------------------------

    def _tick_on(self, member: Member, life: int) -> None:
        if member.life != life or member.raft is None:
            return
        member.raft.tick(self.clock(member))
        self._settle(member)
        self.at(0.05, lambda: self._tick_on(member, life))

    def _settle(self, member: Member) -> None:
        step = member.raft.take()
        self._check(member)
        for each in step.applied:
            self._apply(member, each)
        self._check_serving(member)
        if step.write is not None or step.messages:
            member.waiting.append(step)
        self._write_next(member)

    def _write_next(self, member: Member) -> None:
        if member.is_writing or not member.waiting:
            return
        member.is_writing = True
        life = member.life
        delay = self.random.uniform(0.0, 0.02) if member.waiting[0].write else 0.0
        delay = max(delay, member.slow_until - self.now)
        self.at(delay, lambda: self._written(member, life))

    def _written(self, member: Member, life: int) -> None:
        if member.life != life or member.raft is None:
            return
        member.is_writing = False
        step = member.waiting.pop(0)
        if step.write is not None:
            line = journal.line_of(step.write)
            start = journal.header(GROUP, member.name) if step.write.snapshot else member.text
            member.text = start + line
        for envelope in step.messages:
            self._send(member, envelope)
        if step.write is not None:
            member.raft.stored(step.write.number)
        self._settle(member)

    def _send(self, member: Member, envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, VoteReply) and message.is_granted and not message.is_pre_vote:
            key = (member.name, message.term)
            if self.votes.setdefault(key, envelope.to) != envelope.to:
                raise BrokenPromiseError(f"{member.name} votes twice in term {message.term}")
        for _ in range(self.random.choice([1, 1, 1, 2])):
            if self.random.random() < self.loss:
                continue
            delay = self.random.choice([0.001, 0.005, 0.02, 0.3 * self.random.random()])
            if self.random.random() < 0.02:
                delay = self.random.uniform(1.0, 6.0)
            self.at(delay, lambda: self._arrive(member.name, envelope.to, message))

    def _arrive(self, sender: str, to: str, message: Message) -> None:
        member = self.members[to]
        if member.raft is None or (sender, to) in self.cut:
            return
        member.raft.receive(sender, message, self.clock(member))
        self._settle(member)

    # -- what is promised -----------------------------------------------------------------------

    def _apply(self, member: Member, each: Entry | Snapshot) -> None:
        if isinstance(each, Snapshot):
            if self.states.get(each.index) != int(each.state):
                raise BrokenPromiseError(f"{member.name} installs another state {each.index}")
            member.applied, member.state = each.index, int(each.state)
            return
        if each.index != member.applied + 1:
            raise BrokenPromiseError(f"{member.name} applies {each.index} after {member.applied}")
        if self.committed.setdefault(each.index, each) != each:
            raise BrokenPromiseError(f"entry {each.index} is committed twice, differently")
        member.applied = each.index
        member.state = zlib.crc32(f"{member.state} {each.term} {each.command}".encode())
        self.states.setdefault(each.index, member.state)
        if each.index % self._compact_every == 0:
            member.raft.compact(each.index, str(member.state))
            self.at(0.0, lambda: (member.raft is not None and self._settle(member)) or None)

    def _check(self, member: Member) -> None:
        raft = member.raft
        seen = (member.life, raft.term, raft.role, raft.log.last_index, raft.log.last_term)
        if seen == member.seen:
            return
        member.seen = seen
        entries = raft.log.tail(0)
        before = raft.log.snapshot.term
        for entry in entries:
            known = self.entries.setdefault((entry.index, entry.term), (entry.command, before))
            if known != (entry.command, before):
                raise BrokenPromiseError(f"logs differ before entry {entry.index}")
            before = entry.term
        if raft.is_leader:
            if self.leaders.setdefault(raft.term, member.name) != member.name:
                raise BrokenPromiseError(f"term {raft.term} has two leaders")
            for index, entry in self.committed.items():
                has = raft.log.term_at(index)
                newest = max(self.leaders)
                if raft.term == newest and index > raft.log.snapshot.index and has != entry.term:
                    raise BrokenPromiseError(f"the leader of term {raft.term} lacks entry {index}")

    def _check_serving(self, member: Member) -> None:
        raft = member.raft
        if raft.serves(self.clock(member)) and member.applied < max(self.committed, default=0):
            raise BrokenPromiseError(f"{member.name} serves an old state in term {raft.term}")
