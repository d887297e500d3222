"""What a push consumer does with popped messages that failed, or come too often (K-168, K-170)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pocketmq.client import SimpleConsumer
from pocketmq.client.consumer.popping.requests import PopClient
from pocketmq.client.consumer.popping.settling import PopSettling
from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.stored.record import decode_record
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.tasks import TaskOwner
from support.client_rig import START_MS, client_rig
from support.eventually import eventually
from support.strategies import RecordFields

MAX_RETRIES = 16
OLD_MS = START_MS - 4 * 3_600 * 1_000
"""Born four hours ago, which is just not old enough to be given up."""


class Client:
    """Notes what is asked of the broker."""

    def __init__(self) -> None:
        self.acked: list[MessageExt] = []
        self.hidden_ms: list[int] = []

    def acks(self, messages: Sequence[MessageExt]) -> Sequence[asyncio.Future[None]]:
        self.acked += messages
        return []

    async def change_invisible(self, message: MessageExt, invisible_ms: int) -> None:
        self.hidden_ms.append(invisible_ms)


def message(*, times: int, born_ms: int = START_MS) -> MessageExt:
    return decode_record(RecordFields(reconsume_times=times, born_timestamp_ms=born_ms).encode())


async def outcome(failed: MessageExt) -> tuple[int, list[int]]:
    """How many were acknowledged, and for how long others were hidden, in ms."""
    client, tasks = Client(), TaskOwner("settling")
    instance = SimpleNamespace(clock=ManualClock(START_MS), tasks=tasks)
    settling = PopSettling(
        "g", cast("ClientInstance", instance), cast("PopClient", client), MAX_RETRIES
    )
    settling.later(failed, 0)
    await eventually(lambda: bool(client.acked or client.hidden_ms), "it is settled")
    await tasks.stop()
    return len(client.acked), client.hidden_ms


@pytest.mark.parametrize(
    ("times", "born_ms", "expected"),
    [
        (MAX_RETRIES - 1, START_MS, (0, [7_200_000])),  # the last delay of all
        (MAX_RETRIES, START_MS, (0, [10_000])),  # by age from now on: it is young
        (MAX_RETRIES, OLD_MS, (0, [7_200_000])),
        (MAX_RETRIES, OLD_MS - 1, (1, [])),  # given up
        (MAX_RETRIES - 1, OLD_MS - 1, (0, [7_200_000])),  # old, but with a try left
    ],
)
async def test_a_message_is_given_up_only_after_all_tries_and_when_it_is_old(
    times: int, born_ms: int, expected: Any
) -> None:  # K-170
    assert await outcome(message(times=times, born_ms=born_ms)) == expected


def test_a_message_with_as_many_tries_as_allowed_is_handed_out_once_more() -> None:  # K-168
    settling = PopSettling("g", cast("ClientInstance", None), cast("PopClient", None), MAX_RETRIES)
    assert not settling.is_over(message(times=MAX_RETRIES))
    assert settling.is_over(message(times=MAX_RETRIES + 1))


async def test_whoever_receives_hears_that_the_broker_refused() -> None:
    async with client_rig() as rig:  # its brokers know no pops, as those before 5.0
        consumer = SimpleConsumer("g", **rig.options)
        consumer.subscribe("T")
        async with consumer:
            with pytest.raises(BrokerError, match="request type 200050 is not supported"):
                await consumer.receive(wait_s=0)
