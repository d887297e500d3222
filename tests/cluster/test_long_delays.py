"""Hours of protocol time on processes that move in lock step: delays, retries, dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.client import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from pocketmq.protocol.messages.message import MessageQueue
from support.cluster import Cluster, running
from support.eventually import PATIENCE_MS, eventually

pytestmark = pytest.mark.cluster

DELAYS_S = [1, 5, 10, 30, *(60 * minutes for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30))]
DELAYS_S += [3600, 7200]
"""Of level 1, 2, ... 18 (B-90)."""

RETRIES_S = DELAYS_S[2:]
"""Of retry 1, 2, ... 16: level 3 + times (B-84)."""


class Listener:
    """Fails on what is called poison, and notes what came, and when."""

    def __init__(self, cluster: Cluster) -> None:
        self._now_ms = cluster.local_clock.time_ms
        self.came_ms: dict[int, int] = {}
        """Delay level -> when the broker handed it out; our clock may be a step behind its."""
        self.tries: list[tuple[int, int]] = []
        """`reconsume_times` and time of each delivery of the poison."""

    async def __call__(self, message: MessageExt) -> None:
        if message.body == b"poison":
            self.tries.append((message.reconsume_times, self._now_ms()))
            raise ValueError("poison")
        level = int(message.body)
        assert level not in self.came_ms, "it came twice"
        self.came_ms[level] = message.store_timestamp_ms


async def test_every_delay_level_and_16_retries_take_their_4_h_46_min(tmp_path: Path) -> None:
    # B-83, B-84, B-90, fault 53
    assert sum(RETRIES_S) == 17_140  # 4 h 45 min 40 s
    async with running(tmp_path, clock="manual") as cluster:
        await cluster.create_topic("orders", queues=1)
        listener = Listener(cluster)
        options = {"nameservers": cluster.nameservers, "clock": cluster.local_clock}
        first = ConsumeFromWhere.FIRST_OFFSET
        consumer = PushConsumer("readers", consume_from_where=first, **options)
        consumer.subscribe("orders")
        consumer.listen(listener)
        retry = MessageQueue("%RETRY%readers", "broker-a", 0)
        async with (
            consumer,
            Producer("writers", send_timeout_ms=PATIENCE_MS, **options) as producer,
        ):
            while retry not in consumer.assignment:
                await cluster.advance(seconds=10)
            sent_ms = cluster.local_clock.time_ms()
            for level in range(1, 19):
                await producer.send(Message("orders", b"%d" % level, delay_level=level))
            await producer.send(Message("orders", b"poison"))

            for number, delay_s in enumerate(RETRIES_S):
                times = number + 1
                await eventually(lambda: len(listener.tries) == times, "it comes again")  # noqa: B023
                await eventually(lambda: _sent_back(cluster, times), "it is sent back")  # noqa: B023
                back_ms = cluster.local_clock.time_ms()  # at the latest
                await _move_to(cluster, listener.tries[-1][1] + 1000 * delay_s - 500)
                assert len(listener.tries) == times, "no retry is early"
                await _move_to(cluster, back_ms + 1000 * delay_s + 500)
                due = _due(cluster.local_clock.time_ms() - sent_ms)
                await eventually(lambda: set(listener.came_ms) == due, "what is due has come")  # noqa: B023
            await eventually(lambda: len(listener.tries) == 17, "the last retry is delivered")
            assert [times for times, _ in listener.tries] == list(range(17))
            await eventually(lambda: _dead_letters(cluster), "it is a dead letter")
        for level, came_ms in listener.came_ms.items():
            assert came_ms >= sent_ms + 1000 * DELAYS_S[level - 1], f"level {level} is early"
        assert await _dead_letters(cluster) == 1


def _due(after_ms: int) -> set[int]:
    return {level for level, delay_s in enumerate(DELAYS_S, 1) if 1000 * delay_s <= after_ms}


async def _move_to(cluster: Cluster, time_ms: int) -> None:
    await cluster.advance(seconds=(time_ms - cluster.local_clock.time_ms()) / 1000)


async def _sent_back(cluster: Cluster, times: int) -> bool:
    """Whether the broker has as many delayed copies of the poison as it was given back."""
    async with cluster.admin() as admin:
        queue = MessageQueue("SCHEDULE_TOPIC_XXXX", "broker-a", times + 1)  # level 3 is queue 2
        return await admin.max_offset(queue) >= 2  # one of them is the message of that level


async def _dead_letters(cluster: Cluster) -> int:
    async with cluster.admin() as admin:
        if await admin.route("%DLQ%readers") is None:
            return 0
        return await admin.max_offset(MessageQueue("%DLQ%readers", "broker-a", 0))
