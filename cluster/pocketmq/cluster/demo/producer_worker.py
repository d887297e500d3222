"""`python -m pocketmq.cluster.demo.producer_worker`: sends one producer's part of the flights.

A *lane* is a coroutine that waits for each acknowledgement before it sends its next flight. All
flights of one aircraft are sent by one lane, so their order in their queue is that of the CSV, even
when a send is repeated; many lanes keep many sends in flight.
"""

from pocketmq.runtime.process import RoleContext, report, run_role  # isort: skip

import asyncio
import os
import sys
import zlib
from collections.abc import Iterator, Sequence

from pocketmq.client import Producer
from pocketmq.client.producer.send_result import SendStatus
from pocketmq.cluster.control_port import client_port_door, control_port
from pocketmq.cluster.demo.data import Flight, find_csv, flights
from pocketmq.cluster.demo.workers import (
    PRODUCER_GROUP,
    TOPIC,
    ProducerOptions,
    client_events,
    identity,
    load_options,
    tell,
)
from pocketmq.protocol.errors import BrokerError, ClientError, RemotingError
from pocketmq.protocol.messages.message import Message
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

    def __init__(
        self,
        role: RoleContext,
        producer: Producer,
        *,
        lanes: int,
        rate: float,
        goes_on: bool = False,
    ) -> None:
        self._goes_on = goes_on
        self.sent = 0
        self.silence_s = 0.0
        """Longest time between two acknowledgements."""
        self._acked_at = 0.0
        self._rate = rate
        # Few reports in any case: a slow run reports by time, a fast one by count.
        self._report_every = max(1, min(REPORT_EVERY, int(rate / REPORTS_PER_S) or REPORT_EVERY))
        self._clock = role.clock
        self._producer = producer
        # Bounded, so that the CSV is not read far ahead of the sends.
        self._lanes: list[asyncio.Queue[Flight | None]] = [
            asyncio.Queue(READ_AHEAD) for _ in range(lanes)
        ]

    async def send_all(self, source: Iterator[Flight]) -> None:
        """Send all flights; returns when every one is acknowledged, or raises the first error."""
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(self._drain(lane))
            # Set here, so that the time to connect does not count as silence.
            began_at = self._acked_at = self._clock.monotonic()
            for number, flight in enumerate(source):
                # The pace is checked only every few flights: no sleep is as short as one flight's
                # share.
                if self._rate and number % PACE_EVERY == 0:
                    ahead_s = number / self._rate - (self._clock.monotonic() - began_at)
                    if ahead_s > 0:
                        await self._clock.sleep(ahead_s)
                await self._lane_of(flight).put(flight)
            # None ends a lane when it has sent all before it.
            for lane in self._lanes:
                await lane.put(None)
        tell("done", count=self.sent, silence_ms=round(self.silence_s * 1000))

    def _lane_of(self, flight: Flight) -> asyncio.Queue[Flight | None]:
        # Not the low bits: they decided the producer, so they are the same for all flights here.
        return self._lanes[(zlib.crc32(flight.key.encode()) >> 16) % len(self._lanes)]

    async def _drain(self, lane: asyncio.Queue[Flight | None]) -> None:
        while (flight := await lane.get()) is not None:
            message = Message(TOPIC, flight.body, tags=flight.carrier, keys=flight.key)
            await self._send(message, flight.key)
            self.sent += 1
            now = self._clock.monotonic()
            self.silence_s = max(self.silence_s, now - self._acked_at)
            self._acked_at = now
            if self.sent % self._report_every == 0:
                tell("sent", count=self.sent)

    async def _send(self, message: Message, key: str) -> None:
        """Return when it is acknowledged, and is on as many replicas as was asked for.

        A send that was refused was not stored, and repeating it makes no duplicate. What a master
        had not answered when it died may be stored: then the same message is there twice, under
        one message id.
        """
        while True:
            try:
                # With the flight's key, so that one aircraft's flights are in one queue.
                result = await self._producer.send(message, key=key)
                # Other statuses mean that it is stored, but not as safely as required, so it is
                # sent again.
                if result.status is SendStatus.SEND_OK:
                    return
            except BrokerError as exc:
                if not exc.retriable:
                    raise
            except (RemotingError, ClientError):
                # Without `goes_on` no flight may be stored twice, so an unknown outcome ends the
                # run.
                if not self._goes_on:
                    raise
            await self._clock.sleep(PAUSE_S)


def main(arguments: Sequence[str] | None = None) -> int:
    """Send, report and wait until asked to stop; returns the exit status."""
    try:
        role_options, options = load_options(ProducerOptions, "Sends flights.", arguments)
        door = client_port_door(os.environ)
        # Checked before the process reports READY: without flights it has nothing to do.
        path = find_csv()
    except PocketMQError as exc:
        return report(exc, "producer")

    async def produce(role: RoleContext) -> None:
        events = client_events(options.name, role.clock, is_on=role_options.events)
        producer = Producer(
            PRODUCER_GROUP,
            nameservers=options.nameservers,
            clock=role.clock,
            send_timeout_ms=SEND_LIMIT_MS,
            **identity(options.name, events),
        )
        sender = Sender(
            role, producer, lanes=options.lanes, rate=options.rate, goes_on=options.goes_on
        )
        async with (
            control_port(
                options.name,
                role.clock,
                lambda: {"sent": str(sender.sent)},
                door=door,
                events=events,
            ) as port,
            producer,
        ):
            role.ready(port=port)
            source = flights(path, options.flights or None, part=options.part, parts=options.parts)
            role.tasks.start(sender.send_all(source), name="send")
            await role.stopped()

    return run_role(produce, role="producer", name=options.name, options=role_options)


if __name__ == "__main__":
    sys.exit(main())
