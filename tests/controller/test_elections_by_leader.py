"""When the leading controller has a master elected by itself (D-41 to D-45)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from pocketmq.controller import commands
from pocketmq.controller.election import Candidate
from pocketmq.controller.elections import MOST_AT_ONCE, Elections
from pocketmq.controller.liveness import LiveBroker, LiveBrokers, LiveKey
from pocketmq.controller.replicas import Outcome, Replicas
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.broker_rig import FakePeer
from support.own_logs import own_logs


class Scene:
    """Names with two replicas each, of which the first is master; who is alive is set by hand."""

    def __init__(self, *names: str, settle_s: float = 0.0) -> None:
        self.clock, self.replicas, self.live = ManualClock(0), Replicas(), LiveBrokers()
        self.asked: list[commands.Elect] = []
        self.futures: list[asyncio.Future[Outcome]] = []
        self.peers: dict[tuple[str, int], Any] = {}
        self.consensus = SimpleNamespace(replicas=self.replicas, serves=True, decide=self._decide)
        made: Any = Elections
        self.elections = made(
            self.consensus, self.live, self.clock, allows_unclean=lambda: False, scan_s=5.0,
            settle_s=settle_s,
        )  # fmt: skip
        for name in names:
            for at in (1, 2):
                self.replicas.apply(commands.ApplyId("c", name, at, f"h:{at};"))
            first = [Candidate(1, 1, 0)]
            chosen = self.replicas.apply(commands.Elect("c", name, 1, False, first, False))
            assert chosen.code == ResponseCode.SUCCESS
            for at in (1, 2):
                self.beat(name, at)

    def _decide(self, command: commands.Elect) -> asyncio.Future[Outcome]:
        self.asked.append(command)
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]

    def beat(self, name: str, at: int) -> None:
        peer: Any = FakePeer()
        self.peers[name, at] = peer
        key, now = LiveKey(name, at), self.clock.monotonic()
        self.live.put(LiveBroker(key, "h:1", Candidate(at, 1, 0), 0, now, 10.0, peer))

    def die(self, name: str, at: int) -> None:
        self.elections.channel_closed(self.peers[name, at])

    async def answer(self, code: ResponseCode = ResponseCode.SUCCESS) -> None:
        for future in self.futures:
            if not future.done():
                future.set_result(Outcome(code, "why"))
        await self.clock.sleep(0)

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.asked]


async def test_a_name_whose_master_died_gets_another_and_no_other_name_does() -> None:
    scene = Scene("a", "b")
    scene.die("a", 1)
    scene.elections.scan()
    assert scene.names == ["a"]


async def test_a_master_that_nobody_saw_die_stays_until_somebody_of_its_name_lives() -> None:
    scene = Scene("a")  # D-43: as after a power cut, the controller's too
    for key in list(scene.peers):
        scene.live.closed(scene.peers[key], scene.clock.monotonic())
    scene.live.expire(scene.clock.monotonic())
    scene.elections.scan()
    assert scene.names == []
    scene.beat("a", 2)
    scene.elections.scan()
    assert scene.names == ["a"]


async def test_an_election_that_is_under_way_is_not_begun_twice_and_may_come_again() -> None:
    scene = Scene("a")
    scene.die("a", 1)
    for _ in range(3):
        scene.elections.scan()
    assert scene.names == ["a"]
    with own_logs() as logs:
        await scene.answer(ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE)
    assert [line["event"] for line in logs] == ["election.failed"]
    scene.elections.scan()
    assert scene.names == ["a", "a"]
    with own_logs() as logs:
        await scene.answer()
    assert logs == []


async def test_what_ends_with_the_controller_is_no_failure() -> None:
    scene = Scene("a")
    scene.die("a", 1)
    scene.elections.scan()
    scene.futures[0].cancel()
    await scene.clock.sleep(0)
    scene.elections.scan()
    assert scene.names == ["a", "a"]


async def test_only_a_masters_death_is_told_of_the_election_that_follows() -> None:
    scene = Scene("a")
    scene.die("a", 2)
    scene.elections.scan()
    assert scene.names == []
    assert scene.elections.why_lost("a") == "lost"
    scene.die("a", 1)
    scene.elections.scan()
    assert scene.elections.why_lost("a") == "closed"


async def test_many_elections_are_begun_some_at_a_time() -> None:
    names = [f"n{at:04}" for at in range(MOST_AT_ONCE + 1)]
    scene = Scene(*names)
    scene.elections.start()
    await scene.clock.move_to(100)
    for name in names:
        scene.live.closed(scene.peers[name, 1], scene.clock.monotonic())
    scene.elections.scan()
    assert len(scene.asked) == MOST_AT_ONCE
    await scene.clock.move_to(scene.clock.time_ms())
    assert sorted(scene.names) == names, "the rest follows at once"
    await scene.elections.stop()
    assert scene.clock.next_deadline_ms() is None


async def test_a_connection_of_nobody_brings_no_scan() -> None:
    scene = Scene("a")
    scene.elections.start()
    await scene.clock.move_to(100)
    deadline = scene.clock.next_deadline_ms()
    scene.elections.channel_closed(FakePeer())
    await scene.clock.move_to(100)
    assert scene.clock.next_deadline_ms() == deadline
    await scene.elections.stop()
