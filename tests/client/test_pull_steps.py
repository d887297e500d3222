"""Pulls of one queue, answer by answer; the channel is the test's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from pocketmq.client import MessageQueue
from pocketmq.client.pulling.pull_plan import BeforePull, PullStatus, Step
from pocketmq.client.pulling.pull_service import PullMessageService
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.pull import PullMessageResponseHeader
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.manual_time.manual_clock import ManualClock

QUEUE = MessageQueue("T", "a", 0)


class Consumer:
    """Pulls whatever it is asked about, and keeps what it gets."""

    group = "group"

    def __init__(self) -> None:
        self.got: list[int] = []

    def before_pull(self, _request: object) -> BeforePull:
        return BeforePull(Step.PULL)

    def pull_header(self, _request: object, _broker: object) -> None:
        return None

    def pulled(
        self, _request: object, _status: PullStatus, header: PullMessageResponseHeader, _: object
    ) -> None:
        self.got.append(header.next_begin_offset)


class World:
    """A pull service whose broker's address may change."""

    def __init__(self) -> None:
        self.asked: list[asyncio.Future[Any]] = []
        self.broker = BrokerAddress("127.0.0.1:1", 0)
        self.routes: Any = SimpleNamespace(
            changes=0, broker=lambda *_, **__: self.broker, may_fail_over=lambda _name: False
        )
        channel = SimpleNamespace(request=self._ask)
        api: Any = SimpleNamespace(remoting=SimpleNamespace(open_channel=lambda _: channel))
        addresses: Any = SimpleNamespace(routes=self.routes)
        tasks: Any = None
        self.service = PullMessageService(
            ManualClock(0), api, addresses, tasks, lambda _queue: False, max_body_bytes=1 << 20
        )

    def _ask(self, _header: object, *, timeout_s: float) -> asyncio.Future[Any]:
        assert timeout_s > 30
        self.asked.append(asyncio.get_running_loop().create_future())
        return self.asked[-1]

    def move(self) -> None:
        """Another address has the broker's role."""
        self.broker = BrokerAddress("127.0.0.1:2", 0)
        self.routes.changes += 1
        self.service.routes_changed()


class Request:
    """A pull request, of which the service knows the queue only."""

    def __init__(self) -> None:
        self.queue = QUEUE
        self.suggested_broker_id = 0
        self.waits_for = ""


def answer(next_offset: int, suggested: int = 0) -> Any:
    header = PullMessageResponseHeader(
        suggest_which_broker_id=suggested, next_begin_offset=next_offset, min_offset=0, max_offset=9
    )
    return SimpleNamespace(
        code=ResponseCode.PULL_NOT_FOUND, remark="", header=lambda _class: header
    )


async def turn() -> None:
    await SystemClock().sleep(0)


async def test_the_broker_that_an_answer_suggests_is_asked_next() -> None:  # C-38
    world, consumer, request = World(), Consumer(), Request()
    world.service.execute_now(consumer, request)  # type: ignore[arg-type]
    await turn()
    world.asked[0].set_result(answer(5, suggested=1))
    await turn()
    assert (consumer.got, request.suggested_broker_id) == ([5], 1)
    world.service.stop()


async def test_an_answer_of_a_pull_that_has_moved_is_not_taken_for_the_new_one() -> None:  # W-12
    world, consumer, request = World(), Consumer(), Request()
    world.service.execute_now(consumer, request)  # type: ignore[arg-type]
    await turn()
    # Another queue's pull is due in this turn, and then the answer comes as the broker moves: so
    # the queue is pulled anew before the answer is looked at.
    world.service.execute_now(consumer, Request())  # type: ignore[arg-type]
    world.asked[0].set_result(answer(5))
    world.move()
    await turn()
    await turn()
    assert len(world.asked) == 3
    assert consumer.got == []
    world.asked[2].set_result(answer(7))
    await turn()
    assert consumer.got == [7]
    world.service.stop()
