"""What the peers of a role have waiting, all together, and who is closed for it."""

from __future__ import annotations

from pocketmq.protocol.budget import Budget
from pocketmq.protocol.peer_memory import ASK_SHARE, GRAIN_BYTES, PeerMemory

LIMIT = 64 * 1024 * 1024


class Connection:
    """Holds what a test says; counts how often it is asked for it."""

    asked = 0

    def __init__(self, memory: PeerMemory, name: str, held_bytes: int) -> None:
        self.address = name
        self.is_open = True
        self.held_bytes = held_bytes
        self._memory = memory
        memory.note(self, held_bytes)

    @property
    def waiting_bytes(self) -> int:
        Connection.asked += 1
        return self.held_bytes

    def abort(self) -> None:
        self.is_open = False

    def holds(self, size_bytes: int) -> None:
        """Have it hold so much, and tell it."""
        self.held_bytes = size_bytes
        self._memory.note(self, size_bytes)


def memory_of(limit_bytes: int = LIMIT) -> PeerMemory:
    budget = Budget(peer_memory_bytes=limit_bytes)
    return PeerMemory(lambda: budget)


def test_the_heaviest_go_until_the_others_fit() -> None:
    memory = memory_of(100)
    light, heavy, heavier = (
        Connection(memory, name, held) for name, held in (("a", 20), ("b", 30), ("c", 40))
    )
    Connection(memory, "d", 60)
    assert [each.is_open for each in (light, heavy, heavier)] == [True, True, True]
    assert memory.total_bytes == 90, "the newest was the heaviest"
    last = Connection(memory, "e", 35)
    assert [each.is_open for each in (light, heavy, heavier, last)] == [True, True, False, True]
    assert memory.total_bytes == 85


def test_nobody_goes_for_what_the_system_has_taken_meanwhile() -> None:
    memory = memory_of(100)
    slow, other = Connection(memory, "a", 90), Connection(memory, "b", 5)
    slow.held_bytes = 10  # told to nobody
    other.holds(20)
    assert slow.is_open
    assert memory.total_bytes == 30


def test_many_that_hold_all_there_is_are_not_asked_again_for_every_few_bytes() -> None:
    memory, peers = memory_of(), 2_000
    many = [Connection(memory, str(n), LIMIT // peers) for n in range(peers)]
    busy, first = Connection(memory, "busy", 0), many[0]
    before, notes = Connection.asked, 1_000
    for _ in range(notes):
        first.held_bytes -= 2 * GRAIN_BYTES  # the system takes it, and tells nobody
        busy.holds(2 * GRAIN_BYTES)
        busy.holds(0)
        first.holds(LIMIT // peers)
    assert Connection.asked - before < 20 * notes
    assert all(each.is_open for each in many)


def test_what_is_over_the_limit_by_more_than_a_small_part_is_never_borne() -> None:
    memory = memory_of()
    many = [Connection(memory, str(n), 0) for n in range(100)]
    for size_bytes in range(0, 10 * LIMIT // len(many), GRAIN_BYTES):
        for each in many:
            if each.is_open:
                each.holds(size_bytes)
                assert memory.total_bytes <= LIMIT + LIMIT // ASK_SHARE
    assert memory.total_bytes > LIMIT // 2
    assert 5 <= sum(each.is_open for each in many) <= 20


def test_a_limit_that_is_lowered_holds_from_the_next_note_on() -> None:
    budgets = [Budget(peer_memory_bytes=100)]
    memory = PeerMemory(lambda: budgets[-1])
    first, second, _ = (
        Connection(memory, name, held) for name, held in (("a", 55), ("b", 45), ("c", 40))
    )
    assert (first.is_open, memory.total_bytes) == (False, 85)
    budgets.append(Budget(peer_memory_bytes=60))
    second.holds(44)
    assert (second.is_open, memory.total_bytes) == (False, 40)
