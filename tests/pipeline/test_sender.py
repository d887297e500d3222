"""Batches on their way: order within a queue, places, errors, repetitions; no broker is there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.pipeline.sending.sender import Sender
from pocketmq.pipeline.sending.sink_rows import Batch
from pocketmq.pipeline.topics.patience import Patience
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError, ConnectError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import SystemClock
from support.eventually import PATIENCE_S, eventually

ONE, OTHER = MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)


class Brokers:
    """Answers sends as it is told; knows which bodies are under way."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.codes: Callable[[bytes], int | Exception] = lambda _body: 0
        self.holds: set[bytes] = set()
        self.clock = SystemClock()

    async def channel(self, _queue: MessageQueue) -> Any:
        return SimpleNamespace(request=self._request, address="127.0.0.1:10911")

    async def _request(self, _header: object, body: bytes, *, timeout_s: float) -> Any:
        assert timeout_s > 0
        self.asked.append(body)
        while body in self.holds:
            await self.clock.sleep(0.001)
        code = self.codes(body)
        if isinstance(code, Exception):
            raise code
        return SimpleNamespace(code=code, remark="as it was told")


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def sender(brokers: Brokers, in_flight: int = 4, retries: int = 0) -> Sender:
    access: Any = SimpleNamespace(
        client=lambda: brokers, patience=Patience(retries, 0.0), timeout_s=3.0
    )
    return Sender(access, "P", in_flight)


def batch(body: bytes, queue: MessageQueue = ONE) -> Batch:
    return Batch(queue, parts=[body], size=len(body), rows=1)


async def test_batches_of_a_queue_follow_each_other_and_hold_up_no_other_queue(
    brokers: Brokers,
) -> None:
    sending = sender(brokers)
    brokers.holds.add(b"first")
    for each in (batch(b"first"), batch(b"second"), batch(b"other", OTHER)):
        sending.send(each)
    await eventually(lambda: b"other" in brokers.asked, "the other queue's is sent")
    assert brokers.asked == [b"first", b"other"]
    brokers.holds.clear()
    await asyncio.to_thread(sending.finish)
    assert brokers.asked == [b"first", b"other", b"second"]
    assert (sending.sent_rows, sending.sent_batches) == (3, 3)


def test_a_batch_that_fails_gives_its_place_back_and_is_told_on_the_way(brokers: Brokers) -> None:
    sending = sender(brokers, in_flight=1)
    brokers.codes = lambda body: ResponseCode.NO_PERMISSION if body == b"bad" else 0
    sending.send(batch(b"bad"))
    assert sending._places.acquire(timeout=PATIENCE_S), "its place is free again"
    sending._places.release()

    def send_more() -> None:
        for n in range(20):
            sending.send(batch(b"%d" % n))

    with pytest.raises(BrokerError):
        send_more()
    assert len(brokers.asked) < 20
    sending.cancel()


def test_each_repetition_is_counted_and_the_last_failure_is_an_error(brokers: Brokers) -> None:
    answers: Iterator[int | Exception] = iter(
        [ConnectError("a", "it is away"), int(ResponseCode.SYSTEM_BUSY), 0]
    )
    brokers.codes = lambda _body: next(answers)
    sending = sender(brokers, retries=2)
    sending.send(batch(b"x"))
    sending.finish()
    assert (sending.repeated, sending.sent_batches, brokers.asked) == (2, 1, [b"x"] * 3)
    brokers.codes = lambda _body: ConnectError("a", "it is away")
    sending.send(batch(b"y"))
    with pytest.raises(ConnectError):
        sending.finish()
    assert (sending.repeated, sending.sent_batches) == (4, 1)


def test_what_a_broker_has_stored_counts_as_sent_whatever_its_slaves_do(brokers: Brokers) -> None:
    brokers.codes = lambda _body: ResponseCode.FLUSH_SLAVE_TIMEOUT
    sending = sender(brokers)
    sending.send(batch(b"x"))
    sending.finish()
    assert (sending.sent_batches, sending.repeated) == (1, 0)
