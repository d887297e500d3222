"""`python -m pocketmq.cluster.demo.producer_worker`: sends one producer's part of the flights.

A *lane* is a coroutine that waits for each acknowledgement before it sends its next flight. All
flights of one aircraft are sent by one lane, so their order in their queue is that of the CSV, even
when a send is repeated; many lanes keep many sends in flight.
"""

from pocketmq.runtime.process import RoleContext, report, run_role  # isort: skip

import asyncio
import sys
import zlib
from collections.abc import Iterator, Sequence

from pocketmq.client import Producer
from pocketmq.cluster.control_port import control_port
from pocketmq.cluster.demo.data import Flight, find_csv, flights
from pocketmq.cluster.demo.workers import (
    PRODUCER_GROUP,
    TOPIC,
    ProducerOptions,
    load_options,
    tell,
)
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.message import Message
from pocketmq.runtime.errors import PocketMQError

SEND_LIMIT_MS = 30_000
"""Seconds for one send: long, because a send that times out may have been stored."""

REPORT_EVERY = 2_000
REPORTS_PER_S = 4
PACE_EVERY = 16
READ_AHEAD = 16
PAUSE_S = 0.05


class Sender:
    """Distributes flights to lanes and counts acknowledgements."""

    def __init__(self, role: RoleContext, producer: Producer, *, lanes: int, rate: float) -> None:
        self.sent = 0
        self._rate = rate
        self._report_every = max(1, min(REPORT_EVERY, int(rate / REPORTS_PER_S) or REPORT_EVERY))
        self._clock = role.clock
        self._producer = producer
        self._lanes: list[asyncio.Queue[Flight | None]] = [
            asyncio.Queue(READ_AHEAD) for _ in range(lanes)
        ]

    async def send_all(self, source: Iterator[Flight]) -> None:
        """Send all flights; returns when every one is acknowledged, or raises the first error."""
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(self._drain(lane))
            began_at = self._clock.monotonic()
            for number, flight in enumerate(source):
                if self._rate and number % PACE_EVERY == 0:
                    ahead_s = number / self._rate - (self._clock.monotonic() - began_at)
                    if ahead_s > 0:
                        await self._clock.sleep(ahead_s)
                await self._lane_of(flight).put(flight)
            for lane in self._lanes:
                await lane.put(None)
        tell("done", count=self.sent)

    def _lane_of(self, flight: Flight) -> asyncio.Queue[Flight | None]:
        # Not the low bits: they decided the producer, so they are the same for all flights here.
        return self._lanes[(zlib.crc32(flight.key.encode()) >> 16) % len(self._lanes)]

    async def _drain(self, lane: asyncio.Queue[Flight | None]) -> None:
        while (flight := await lane.get()) is not None:
            message = Message(TOPIC, flight.body, tags=flight.carrier, keys=flight.key)
            await self._send(message, flight.key)
            self.sent += 1
            if self.sent % self._report_every == 0:
                tell("sent", count=self.sent)

    async def _send(self, message: Message, key: str) -> None:
        while True:
            try:
                await self._producer.send(message, key=key)
                return
            except BrokerError as exc:
                # A refused send was not stored, so repeating it makes no duplicate.
                if not exc.retriable:
                    raise
            await self._clock.sleep(PAUSE_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Send, report and wait until asked to stop; returns the exit status."""
    try:
        role_options, options = load_options(ProducerOptions, "Sends flights.", arguments)
        path = find_csv()
    except PocketMQError as exc:
        return report(exc, "producer")

    async def produce(role: RoleContext) -> None:
        producer = Producer(
            PRODUCER_GROUP,
            nameservers=options.nameservers,
            clock=role.clock,
            send_timeout_ms=SEND_LIMIT_MS,
        )
        sender = Sender(role, producer, lanes=options.lanes, rate=options.rate)
        async with (
            control_port(options.name, role.clock, lambda: {"sent": str(sender.sent)}) as port,
            producer,
        ):
            role.ready(port=port)
            source = flights(path, options.flights or None, part=options.part, parts=options.parts)
            role.tasks.start(sender.send_all(source), name="send")
            await role.stopped()

    return run_role(produce, role="producer", name=options.name, options=role_options)


if __name__ == "__main__":
    sys.exit(main())
