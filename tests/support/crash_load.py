"""What a crash loop does to a broker until it is dead: producers, a consumer, a running clock.

Everything that the broker answers goes into the ledger at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, Self

from pocketmq.client import Admin, Message, MessageQueue, Producer
from pocketmq.cluster.control import ControlledProcess
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from support.crash_ledger import Ledger, Place
from support.eventually import PATIENCE_MS
from support.store_life import body_of

QUEUES = 4
SENDERS = 6
BATCH = 5
GROUP = "crash-consumers"

LONGEST_ROUND_MS = 100_000
"""Of the broker's clock: below the 120 s after which it forgets silent clients (B-27)."""

_CLOCK = SystemClock()


class Topics(NamedTuple):
    """What one store's messages are sent to."""

    orders: str
    delayed: str
    broker: str

    def queue(self, queue: int) -> MessageQueue:
        """A queue of the orders."""
        return MessageQueue(self.orders, self.broker, queue)


@dataclass
class BrokerClock:
    """The manual clock of one broker process, as far as it is known from outside."""

    started_ms: int
    now_ms: int
    """Where it certainly stands: everything due by then has settled."""
    most_ms: int
    """Where it may stand already."""

    @classmethod
    def at(cls, time_ms: int) -> Self:
        """Of a process that starts."""
        return cls(time_ms, time_ms, time_ms)

    async def move(self, member: ControlledProcess, by_ms: int) -> None:
        """Move it on."""
        self.most_ms += by_ms
        await member.move_to(self.most_ms)
        self.now_ms = self.most_ms


class Load:
    """The work of one round.

    Args:
        ledger: gets what is sent and what is answered.
        clock: of the broker.
        topics: what is sent to.
        round_name: makes the names of new topics unique.
        chance: chooses how the clock moves.
    """

    def __init__(
        self, ledger: Ledger, clock: BrokerClock, topics: Topics, round_name: str, chance: Random
    ) -> None:
        self.commits = 0
        """Consumer offsets that the broker took note of."""
        self._ledger = ledger
        self._clock = clock
        self._topics = topics
        self._round = round_name
        self._chance = chance
        self._over = asyncio.Event()

    @asynccontextmanager
    async def running(self, nameservers: str, member: ControlledProcess) -> AsyncIterator[None]:
        """Load the broker during a block, at whose end it is dead."""
        producer = Producer(
            "crash-producers", nameservers=nameservers, retry_times_when_send_failed=0
        )
        async with producer, Admin(nameservers=nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            loads: list[Awaitable[None]] = [
                self._send_singly(producer, sender) for sender in range(SENDERS)
            ]
            loads += [
                self._send_batches(producer, SENDERS),
                self._send_delayed(producer, SENDERS + 1),
                self._send_to_new_topics(producer, SENDERS + 2),
                self._commit(admin),
                self._move_clock(member),
            ]
            tasks = [asyncio.ensure_future(load) for load in loads]
            try:
                yield
            finally:
                self._over.set()
                await asyncio.gather(*tasks)

    async def _repeat(self, step: Callable[[], Awaitable[None]], pause_s: float = 0.0) -> None:
        """Do it until the round is over; what the broker refuses is not acknowledged."""
        while not self._over.is_set():
            try:
                await step()
                await _CLOCK.sleep(pause_s)
            except PocketMQError:
                await _CLOCK.sleep(0.01)

    async def _send_singly(self, producer: Producer, sender: int) -> None:
        async def step() -> None:
            number = self._ledger.send(sender)
            keys = f"k{number % 50}" if number % 3 == 0 else ""
            message = Message(
                self._topics.orders, body_of(number), tags="AB"[number % 2], keys=keys
            )
            result = await producer.send(message)
            if result.is_ok:
                place = Place(self._topics.orders, result.queue.queue_id, result.queue_offset)
                self._ledger.acknowledge(place, number)
                self._ledger.can_commit(place)

        await self._repeat(step)

    async def _send_batches(self, producer: Producer, sender: int) -> None:
        async def step() -> None:
            numbers = [self._ledger.send(sender) for _ in range(BATCH)]
            batch = [Message(self._topics.orders, body_of(number)) for number in numbers]
            result = await producer.send_batch(batch)
            if result.is_ok:
                for at, number in enumerate(numbers):
                    offset = result.queue_offset + at
                    place = Place(self._topics.orders, result.queue.queue_id, offset)
                    self._ledger.acknowledge(place, number)

        await self._repeat(step)

    async def _send_delayed(self, producer: Producer, sender: int) -> None:
        async def step() -> None:
            number = self._ledger.send(sender)
            message = Message(self._topics.delayed, body_of(number), delay_level=1 + number % 2)
            if (await producer.send(message)).is_ok:
                self._ledger.delayed.add(number)

        await self._repeat(step, 0.005)

    async def _send_to_new_topics(self, producer: Producer, sender: int) -> None:
        made = 0

        async def step() -> None:
            nonlocal made
            topic = f"new-{self._round}-{made}"
            made += 1
            number = self._ledger.send(sender)
            result = await producer.send(Message(topic, body_of(number)))
            if result.is_ok:
                place = Place(topic, result.queue.queue_id, result.queue_offset)
                self._ledger.acknowledge(place, number)

        await self._repeat(step, 0.1)

    async def _commit(self, admin: Admin) -> None:
        """Note progress in each queue of the orders, as a consumer does."""
        has_group = False

        async def step() -> None:
            nonlocal has_group
            if not has_group:
                await admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
                has_group = True
            for queue in range(QUEUES):
                offset = self._ledger.ends.get(queue, 0)
                if offset > self._ledger.progress(queue):
                    await admin.update_consumer_offset(GROUP, self._topics.queue(queue), offset)
                    self._ledger.commit(queue, self._clock.most_ms, offset)
                    self.commits += 1

        await self._repeat(step, 0.01)

    async def _move_clock(self, member: ControlledProcess) -> None:
        clock = self._clock

        async def step() -> None:
            if clock.most_ms - clock.started_ms < LONGEST_ROUND_MS:
                await clock.move(member, self._chance.choice((50, 100, 500, 1000, 1000, 5000)))

        await self._repeat(step, 0.01)
