"""What a controller says follows from what is on its disk: votes and answers wait for the write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from pocketmq.controller.consensus import Consensus
from pocketmq.controller.outlet import Written
from pocketmq.controller.raft.group import Group
from pocketmq.controller.raft.messages import (
    Append,
    AppendReply,
    Entry,
    Envelope,
    Message,
    Snapshot,
    Stored,
    VoteReply,
    VoteRequest,
    Write,
)
from pocketmq.runtime.manual_time.manual_clock import ManualClock

GROUP = Group("a", ("a", "b", "c"))


class HeldStorage:
    """A journal whose writes end when the test lets them; what is on the disk then is kept."""

    def __init__(self, stored: Stored | None = None) -> None:
        stored = stored or Stored()
        self.term, self.vote = stored.term, stored.vote
        self.entries = list(stored.entries)
        self.asked: list[Write] = []
        self._may_end = asyncio.Event()

    async def load(self) -> Stored:
        return Stored(self.term, self.vote, Snapshot(0, 0, ""), list(self.entries))

    async def write(self, write: Write) -> Written:
        self.asked.append(write)
        await self._may_end.wait()
        self.term, self.vote = write.term, write.vote
        self.entries += write.entries
        return Written(write.number)

    def go_on(self) -> None:
        self._may_end.set()


@dataclass
class Member:
    """Member `a`, whose peers are the test."""

    consensus: Consensus
    storage: HeldStorage
    clock: ManualClock
    sent: list[Envelope] = field(default_factory=list)

    async def hear(self, sender: str, message: Message) -> None:
        self.consensus.receive(sender, message)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await self.clock.sleep(0)

    def said(self, to: str) -> list[Message]:
        return [each.message for each in self.sent if each.to == to]


@asynccontextmanager
async def member(storage: HeldStorage) -> AsyncIterator[Member]:
    clock, sent = ManualClock(0), list[Envelope]()

    def fail(_task: str, error: BaseException) -> None:
        raise error

    consensus = Consensus(
        GROUP,
        storage,
        clock,
        send=sent.append,
        on_outcome=lambda _: None,
        on_leading=lambda: None,
        on_failure=fail,
        seed=1,
    )
    await consensus.start()
    try:
        yield Member(consensus, storage, clock, sent)
    finally:
        storage.go_on()
        await consensus.stop()


async def test_a_vote_leaves_when_it_is_on_the_disk_and_not_before() -> None:
    # Else two leaders in one term: who voted, crashed and forgot it votes for another.
    storage = HeldStorage()
    async with member(storage) as a:
        await a.clock.move_to(60_000)
        a.sent.clear()
        await a.hear("b", VoteRequest(9, 0, 0, False))
        assert storage.asked[-1].vote in ("a", "b")
        assert not [each for each in a.said("b") if isinstance(each, VoteReply)]
        assert (storage.term, storage.vote) == (0, "")
        storage.go_on()
        await a.settle()
        assert VoteReply(9, True, False) in a.said("b")
        assert (storage.term, storage.vote) == (9, "b")


async def test_entries_are_confirmed_when_they_are_on_the_disk_and_not_before() -> None:
    # Else a leader counts a majority that a power cut takes away.
    storage = HeldStorage()
    async with member(storage) as a:
        await a.hear("b", Append(1, 0, 0, [Entry(1, 1, "")], 0, 5.0))
        assert storage.asked
        assert not [each for each in a.said("b") if isinstance(each, AppendReply)]
        storage.go_on()
        await a.settle()
        assert AppendReply(1, True, 1, 5.0) in a.said("b")
        assert storage.entries == [Entry(1, 1, "")]


async def test_a_candidate_asks_for_votes_when_its_own_is_on_the_disk() -> None:
    storage = HeldStorage(Stored(3, "", Snapshot(0, 0, ""), []))
    async with member(storage) as a:
        while not a.said("b"):  # it asks whether it would be elected, which needs no disk
            await a.clock.move_to(a.clock.time_ms() + 50)
            await a.settle()
        await a.hear("b", VoteReply(4, True, True))
        asked = [each for each in a.said("b") if isinstance(each, VoteRequest)]
        assert asked, "it asked"
        assert all(each.is_pre_vote for each in asked)
        assert storage.asked[-1].vote == "a"
        storage.go_on()
        await a.settle()
        assert VoteRequest(4, 0, 0, False) in a.said("b")
