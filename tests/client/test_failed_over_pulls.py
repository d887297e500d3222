"""How soon a push consumer reads from a new master (W-12): exact steps, on a manual clock."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from pocketmq.client.pulling.pull_plan import BeforePull, Step
from pocketmq.client.pulling.pull_service import PullMessageService
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ConnectionLostError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.tasks import TaskOwner
from support.client_rig import ClientRig, client_rig
from support.consuming import Collected, consuming
from support.eventually import eventually
from support.scripted_broker import ScriptedBroker


def let_lead(rig: ClientRig, master: ScriptedBroker, slave: ScriptedBroker | None) -> None:
    """What name servers tell from now on: both are brokers of one name, `a`."""
    addresses = {0: master.address} | ({1: slave.address} if slave is not None else {})
    rig.nameserver.routes["T"] = TopicRouteData(
        queue_datas=[QueueData(broker_name="a", read_queue_nums=1, write_queue_nums=1, perm=6)],
        broker_datas=[BrokerData(cluster="c", broker_name="a", broker_addrs=addresses)],
    )


async def test_a_pull_at_a_broker_that_stands_still_goes_to_the_new_master() -> None:
    async with client_rig("a", "b") as rig:
        old, new = rig.brokers
        let_lead(rig, old, new)
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)  # the first pull goes out, and is never answered
            await eventually(lambda: len(old.held) == 1, "the queue is pulled")
            asked = len(rig.nameserver.seen)
            await rig.advance(13)
            let_lead(rig, new, old)
            new.put("T", 0, b"x")
            await rig.advance(1)
            assert not got.messages
            assert len(rig.nameserver.seen) == asked  # a broker may hold a pull for 15 s
            await rig.advance(2)
            await eventually(lambda: got.bodies == [b"x"], "read 16 s after the pull went out")


async def test_a_new_master_is_looked_for_each_second_while_a_pull_is_overdue() -> None:
    async with client_rig("a", "b") as rig:
        old, new = rig.brokers
        let_lead(rig, old, new)
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)
            await eventually(lambda: len(old.held) == 1, "the queue is pulled")
            await rig.advance(20)
            let_lead(rig, new, old)
            new.put("T", 0, b"x")
            await rig.advance(1)
            await eventually(lambda: got.bodies == [b"x"], "read within a second")
            assert old.count(RequestCode.PULL_MESSAGE) == 1


async def test_a_broker_without_replicas_is_not_suspected() -> None:
    async with client_rig("a") as rig:
        let_lead(rig, rig.brokers[0], None)
        async with consuming(rig, Collected()):
            await rig.advance(1)
            await eventually(lambda: len(rig.brokers[0].held) == 1, "the queue is pulled")
            asked = len(rig.nameserver.seen)
            await rig.advance(25)
            assert len(rig.nameserver.seen) == asked


async def test_after_a_kill_the_new_master_is_read_from_within_a_second() -> None:
    async with client_rig("a", "b") as rig:
        old, new = rig.brokers
        let_lead(rig, old, new)
        got = Collected()
        async with consuming(rig, got):
            await rig.advance(1)
            await eventually(lambda: len(old.held) == 1, "the queue is pulled")
            asked = len(rig.nameserver.seen)
            await old.stop()
            await eventually(lambda: len(rig.nameserver.seen) > asked, "the route is asked for")
            let_lead(rig, new, None)  # elected a moment after that question
            new.put("T", 0, b"x")
            await rig.advance(0.9)
            assert not got.messages  # there is one question a second
            await rig.advance(0.2)
            await eventually(lambda: got.bodies == [b"x"], "read when the route was asked again")


class OneQueue:
    """A consumer's queue, its routes and the channel, for a pull service alone."""

    def __init__(self) -> None:
        self.queue = MessageQueue("T", "a", 0)
        self.suggested_broker_id = 0
        self.group = "g"
        self.waits_for = ""
        self.address = "old:1"
        self.changes = 0
        self.looks = 0
        self.answers: list[asyncio.Future[Any]] = []
        self.remoting = SimpleNamespace(open_channel=lambda _address: self)
        self.routes = self

    def before_pull(self, _request: object) -> BeforePull:
        return BeforePull(Step.PULL)

    def pull_header(self, _request: object, _broker: object) -> None:
        return None

    def broker(self, *_: object, **__: object) -> BrokerAddress:
        self.looks += 1
        return BrokerAddress(self.address, 0)

    def may_fail_over(self, _name: str) -> bool:
        return True

    def request(self, _header: object, **_: object) -> asyncio.Future[Any]:
        self.answers.append(asyncio.get_running_loop().create_future())
        return self.answers[-1]


async def test_a_queue_is_not_pulled_twice_when_an_answer_comes_as_its_pull_moves() -> None:
    clock, one = ManualClock(0), OneQueue()
    a_turn = SystemClock()
    made: Any = PullMessageService
    tasks = TaskOwner("pulls")
    pulls = made(clock, one, one, tasks, lambda _queue: False, max_body_bytes=1)
    pulls.execute_now(one, one)
    await a_turn.sleep(0)
    assert len(one.answers) == 1
    one.address, one.changes = "new:1", 1
    one.answers[0].set_exception(ConnectionLostError("old:1", "closed"))  # told in the next turn
    pulls.routes_changed()
    for _ in range(3):
        await a_turn.sleep(0)
    await clock.move_to(clock.time_ms() + 10_000)
    await a_turn.sleep(0)
    assert len(one.answers) == 2, "one pull is under way"
    pulls.stop()
    await tasks.stop()


async def test_pulls_are_looked_at_once_however_many_routes_tell_of_a_broker() -> None:
    """A broker with a thousand topics is told of a thousand times when its address changes."""
    clock, a_turn = ManualClock(0), SystemClock()
    queues = [OneQueue() for _ in range(20)]
    routes = queues[0]
    made: Any = PullMessageService
    tasks = TaskOwner("pulls")
    pulls = made(clock, routes, routes, tasks, lambda _queue: False, max_body_bytes=1)
    for each in queues:
        pulls.execute_now(each, each)
    await a_turn.sleep(0)
    before = routes.looks
    for _ in range(1_000):
        pulls.routes_changed()
    assert routes.looks == before, "no address is another one"
    routes.changes += 1
    for _ in range(1_000):
        pulls.routes_changed()
    assert routes.looks == before + len(queues)
    pulls.stop()
    await tasks.stop()
