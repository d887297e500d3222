"""What a message waits for until it is safe, and which failure is told; nothing is stored."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.store import FlushDiskType, PutResult, PutStatus
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.runtime.manual_time.manual_clock import ManualClock

OK, DISK, SLAVE = PutStatus.PUT_OK, PutStatus.FLUSH_DISK_TIMEOUT, PutStatus.FLUSH_SLAVE_TIMEOUT
STORED = PutResult(OK, 0, 100, 50)
Told = Callable[[PutStatus], None]


class Surroundings:
    """Flush, slaves and the table of topics, each of which says when the test wants."""

    def __init__(self, flush: FlushDiskType = FlushDiskType.SYNC_FLUSH) -> None:
        self.waiting: list[tuple[str, int, Told]] = []
        self.flushes = OK
        self.on_saved: list[Callable[[], None]] = []
        self.replicas = SimpleNamespace(
            must_wait=True, may_be_replaced=False, role=SimpleNamespace(leads=True),
            when_replicated=lambda end, told: self.waiting.append(("slaves", end, told)),
        )  # fmt: skip
        self.topics = SimpleNamespace(is_saved=True, when_saved=self._when_saved)
        store: Any = SimpleNamespace(
            config=SimpleNamespace(flush_disk_type=flush),
            when_flushed=lambda end, told: self.waiting.append(("flush", end, told)),
            commit_log=SimpleNamespace(max_offset=150),
            flush=self._flush,
        )
        none: Any = None
        topics: Any = self.topics
        replicas: Any = self.replicas
        self.puts = SafePuts(store, topics, replicas, none, none, ManualClock(0))
        self.told: list[PutStatus] = []

    def _when_saved(self, saved: Callable[[], None]) -> None:
        if self.topics.is_saved:
            saved()
        else:
            self.on_saved.append(saved)

    async def _flush(self) -> PutStatus:
        return self.flushes

    def says(self, who: str, status: PutStatus) -> None:
        """The one that is waited for now says how it went."""
        [(name, end, told)] = self.waiting
        assert (name, end) == (who, 150)
        self.waiting.clear()
        told(status)


@pytest.mark.parametrize(
    ("slaves", "flush", "told"),
    [(OK, OK, OK), (OK, DISK, DISK), (SLAVE, OK, SLAVE), (SLAVE, DISK, SLAVE)],
)
def test_a_message_is_as_safe_as_disk_and_slaves_say(
    slaves: PutStatus, flush: PutStatus, told: PutStatus
) -> None:  # B-140, B-142, B-144
    around = Surroundings()
    around.puts.when_safe([STORED], around.told.append)
    around.says("slaves", slaves)
    assert around.told == []
    around.says("flush", flush)
    assert around.told == [told]


def test_a_message_waits_for_its_topic_even_if_it_waits_for_nothing_else() -> None:
    around = Surroundings()
    around.topics.is_saved = False
    around.puts.when_safe([STORED], around.told.append, flushed=False)
    assert (around.waiting, around.told) == ([], [])
    around.on_saved.pop()()
    assert around.told == [OK]


def test_who_may_have_been_replaced_meanwhile_acknowledges_nothing() -> None:  # W-2
    around = Surroundings()
    around.puts.when_safe([STORED], around.told.append)
    around.says("slaves", OK)
    around.replicas.may_be_replaced = True
    around.says("flush", OK)
    assert around.told == [SLAVE]


def may_wait(flush: FlushDiskType, *, slaves: bool, replaced: bool, saved: bool) -> bool:
    around = Surroundings(flush)
    around.replicas.must_wait, around.replicas.may_be_replaced = slaves, replaced
    around.topics.is_saved = saved
    return around.puts.must_wait


def test_what_may_end_otherwise_than_well_is_waited_for() -> None:  # B-145, W-2
    later, at_once = FlushDiskType.ASYNC_FLUSH, FlushDiskType.SYNC_FLUSH
    assert not may_wait(later, slaves=False, replaced=False, saved=True)
    assert may_wait(at_once, slaves=False, replaced=False, saved=True)
    assert may_wait(later, slaves=True, replaced=False, saved=True)
    assert may_wait(later, slaves=False, replaced=True, saved=True)
    assert may_wait(later, slaves=False, replaced=False, saved=False)


async def test_the_whole_log_is_safe_when_disk_and_slaves_say_so_and_nobody_else_leads() -> None:
    around = Surroundings(FlushDiskType.ASYNC_FLUSH)
    around.flushes = DISK
    assert await around.puts.log_is_safe() is DISK
    around.flushes = OK
    for replaced, told in ((False, OK), (True, SLAVE)):
        around.replicas.may_be_replaced = replaced
        around.replicas.when_replicated = lambda _end, told: told(OK)
        store: Any = around.puts._store
        store.when_flushed = lambda _end, told: told(OK)
        assert await around.puts.log_is_safe() is told
