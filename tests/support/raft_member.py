"""One member of a Raft group of three, a, b and c, without a shell."""

from __future__ import annotations

from random import Random

from pocketmq.controller.raft.core import Raft
from pocketmq.controller.raft.group import Group, Role
from pocketmq.controller.raft.messages import Message, Stored, VoteReply

GROUP = Group("a", ("a", "b", "c"))


def member(stored: Stored | None = None, now: float = 0.0) -> Raft:
    return Raft(GROUP, stored or Stored(), Random(1), now)


def leading(stored: Stored | None = None) -> Raft:
    """A member that was just elected by b; its empty entry is on its disk."""
    raft = member(stored)
    raft.tick(3.0)
    raft.receive("b", VoteReply(raft.term + 1, True, True), 3.0)
    settle(raft)
    raft.receive("b", VoteReply(raft.term, True, False), 3.0)
    assert raft.role is Role.LEADER
    settle(raft)
    return raft


def settle(raft: Raft) -> list[tuple[str, Message]]:
    """Write what is to be written; what is to be sent."""
    sent = []
    for _ in range(10):
        step = raft.take()
        sent += [(each.to, each.message) for each in step.messages]
        if step.write is None:
            return sent
        raft.stored(step.write.number)
    raise AssertionError("there is always something more to write")
