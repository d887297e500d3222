"""A controller's part in the group from start to stop: nobody waits for ever, nothing is left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.test_written_first import HeldStorage, Member, member
from pocketmq.controller import commands
from pocketmq.controller.config import ControllerConfig
from pocketmq.controller.consensus import COMPACT_EVERY, Consensus
from pocketmq.controller.errors import NotLeadingError, UndecidedError
from pocketmq.controller.outlet import Written
from pocketmq.controller.raft.group import Group
from pocketmq.controller.raft.messages import (
    Append,
    AppendReply,
    Entry,
    Install,
    Message,
    Snapshot,
    Stored,
    VoteReply,
    VoteRequest,
    Write,
)
from pocketmq.controller.replicas import Replicas
from pocketmq.runtime.clock import Latch
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.manual_time.manual_clock import ManualClock

COMMAND = commands.ApplyId("c", "broker-a", 1, "h:1;")


class Gate:
    """A journal that writes at once while it is open."""

    def __init__(self, clock: ManualClock) -> None:
        self.is_open = True
        self.writes: list[Write] = []
        self._clock, self._latch = clock, Latch()

    async def load(self) -> Stored:
        return Stored()

    async def write(self, write: Write) -> Written:
        while not self.is_open:
            await self._clock.wait(self._latch, None)  # so that the clock knows that it rests
        self.writes.append(write)
        return Written(write.number)

    def open(self) -> None:
        self.is_open = True
        self._latch.wakeup()


class Alone:
    """A controller that is a group by itself."""

    def __init__(self) -> None:
        self.clock, self.outcomes = ManualClock(0), 0
        self.storage = Gate(self.clock)
        self.failures: list[BaseException] = []
        self.led_at: list[bool] = []
        """Whether it served when it was told that it does."""

        def decided(_: object) -> None:
            self.outcomes += 1

        self.consensus = Consensus(
            Group("a", ("a",)),
            self.storage,
            self.clock,
            send=lambda _: None,
            on_outcome=decided,
            on_leading=lambda: self.led_at.append(self.consensus.serves),
            on_failure=lambda _task, error: self.failures.append(error),
            seed=1,
        )

    async def start(self) -> None:
        await self.consensus.start()
        while not self.consensus.serves:
            await self.clock.move_to(self.clock.time_ms() + 50)

    async def settle(self) -> None:
        for _ in range(20):
            await self.clock.sleep(0)


async def test_a_controller_is_told_once_that_it_begins_to_serve() -> None:  # D-53
    alone = Alone()
    await alone.start()
    await alone.consensus.decide(COMMAND)
    assert alone.led_at == [True]
    await alone.consensus.stop()


async def test_who_waits_for_a_decision_is_told_when_the_controller_stops() -> None:
    alone = Alone()
    await alone.start()
    alone.storage.is_open = False
    waiting = [alone.consensus.decide(COMMAND) for _ in range(3)]
    await alone.settle()
    assert not any(each.done() for each in waiting)
    await alone.consensus.stop()
    for each in waiting:
        with pytest.raises(NotLeadingError):
            await each


async def test_a_decision_that_comes_too_late_for_who_asked_is_made_all_the_same() -> None:
    alone = Alone()
    await alone.start()
    before = alone.outcomes
    alone.storage.is_open = False
    asked = [alone.consensus.decide(COMMAND) for _ in range(2)]
    await alone.clock.move_to(alone.clock.time_ms() + 3_100)
    for each in asked:
        with pytest.raises(UndecidedError):
            await each
    alone.storage.open()
    await alone.settle()
    assert alone.outcomes == before + 2
    assert alone.failures == []
    await alone.consensus.stop()


async def test_a_stop_after_who_asked_has_given_up_ends() -> None:
    alone = Alone()
    await alone.start()
    alone.storage.is_open = False
    asked = alone.consensus.decide(COMMAND)
    await alone.clock.move_to(alone.clock.time_ms() + 3_100)
    await alone.consensus.stop()
    with pytest.raises(UndecidedError):
        await asked


async def test_the_log_is_replaced_by_a_snapshot_again_and_again() -> None:
    alone = Alone()
    await alone.start()
    for _ in range(2 * COMPACT_EVERY + 10):
        await alone.consensus.decide(COMMAND)
    snapshots = [each.snapshot.index for each in alone.storage.writes if each.snapshot is not None]
    assert [index // COMPACT_EVERY for index in snapshots] == [1, 2]
    await alone.consensus.stop()


async def test_a_stopped_controller_says_nothing_and_leaves_no_timer() -> None:
    storage = HeldStorage()
    async with member(storage) as a:
        await a.hear("b", VoteRequest(9, 0, 0, False))
        await a.hear("b", Append(9, 0, 0, [], 0, 1.0))
        await a.consensus.stop()
        storage.go_on()
        a.sent.clear()
        await a.hear("b", Append(12, 0, 0, [], 0, 2.0))
        await a.settle()
        assert a.sent == []
        assert a.consensus.raft.term == 9, "it hears nothing either"
        assert a.clock.next_deadline_ms() is None


async def test_a_controller_that_has_not_loaded_its_journal_hears_nothing() -> None:
    alone = Alone()
    alone.consensus.receive("b", VoteRequest(9, 0, 0, False))
    assert not alone.consensus.is_started


async def test_each_event_leaves_one_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = HeldStorage()
    storage.go_on()
    async with member(storage) as a:
        ticks = 0
        raft: Any = a.consensus.raft
        tick = raft.tick

        def counted(now: float) -> None:
            nonlocal ticks
            ticks += 1
            tick(now)

        monkeypatch.setattr(raft, "tick", counted)
        for at in range(50):
            await a.hear("b", Append(1, 0, 0, [], 0, float(at)))
        await a.clock.move_to(a.clock.time_ms() + 2_100)
        assert 1 <= ticks <= 5


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"peers": "n0-h:1;-h:2"}, "has no id, or the same id as another peer"),
        ({"peers": "n0-h:1;n0-h:2"}, "has no id, or the same id as another peer"),
        ({"peers": "n1-h:1;n2-h:2"}, "must be one of the ids of the peers: n1, n2"),
        ({"peers": "n0-h:1;n1-h:2", "port": 3}, "is not the port of n0 in the peers"),
        ({"peers": "n0-h"}, "n0-host:9877"),
    ],
)
def test_peers_that_are_no_group_are_refused(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        ControllerConfig(self_id="n0", store_path=Path("/c"), **options)


def test_without_peers_a_controller_is_its_group() -> None:
    config = ControllerConfig(self_id="n0", store_path=Path("/c"), host="127.0.0.1", port=5)
    assert config.members() == {"n0": "127.0.0.1:5"}


@asynccontextmanager
async def leader(*, serves: bool = True) -> AsyncIterator[Member]:
    """Member `a`, which leads in term 1; once its first entry is confirmed, it serves."""
    storage = HeldStorage()
    storage.go_on()
    async with member(storage) as a:
        while not a.said("b"):
            await a.clock.move_to(a.clock.time_ms() + 50)
            await a.settle()
        await a.hear("b", VoteReply(1, True, True))
        await a.hear("b", VoteReply(1, True, False))
        [asked, *_] = [each for each in a.said("b") if isinstance(each, Append)]
        if serves:
            await a.hear("b", AppendReply(1, True, 1, asked.sent_at))
        assert a.consensus.serves is serves
        yield a


async def test_who_does_not_serve_decides_nothing_and_names_the_leader_unless_it_leads() -> None:
    alone = Alone()
    with pytest.raises(NotLeadingError) as unstarted:
        alone.consensus.decide(COMMAND)
    assert unstarted.value.leader == ""
    storage = HeldStorage()
    storage.go_on()
    async with member(storage) as a:
        await a.hear("b", Append(1, 0, 0, [], 0, 0.0))
        with pytest.raises(NotLeadingError) as following:
            a.consensus.decide(COMMAND)
        assert following.value.leader == "b"
    async with leader() as a:
        await a.clock.move_to(a.clock.time_ms() + 60_000)  # nobody answers it any more
        with pytest.raises(NotLeadingError) as deposed:
            a.consensus.check_serving()
        assert deposed.value.leader == ""


async def test_a_leader_that_does_not_serve_yet_does_not_name_itself() -> None:
    async with leader(serves=False) as a:
        assert a.consensus.raft.is_leader
        with pytest.raises(NotLeadingError) as young:
            a.consensus.check_serving()
        assert young.value.leader == "", "clients would ask it again at once"


@pytest.mark.parametrize(
    "message",
    [
        Append(2, 1, 1, [Entry(2, 2, "")], 2, 0.0),
        Install(2, Snapshot(2, 2, Replicas().snapshot()), 0.0),
    ],
    ids=["entries", "snapshot"],
)
async def test_who_waits_for_a_command_that_another_leader_replaced_is_told(
    message: Message,
) -> None:
    async with leader() as a:
        waiting = a.consensus.decide(COMMAND)
        await a.settle()
        assert not waiting.done()
        await a.hear("c", message)
        with pytest.raises(NotLeadingError):
            await waiting
