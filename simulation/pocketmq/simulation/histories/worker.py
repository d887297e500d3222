"""`python -m pocketmq.simulation.histories.worker producer ...`: a client that records a history.

A producer sends the messages of each of its keys one after the other, each key to one queue. After
a try with unknown outcome it repeats the send or gives up, with equal probability. A consumer
records a message before it reports success. Both print READY when they have started, and stop on
SIGTERM.
"""

from __future__ import annotations

from pocketmq.runtime.process import ready_line  # isort: skip  - first: so rich is not imported

import argparse
import asyncio
import os
import random
import signal
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import structlog

from pocketmq.client import (
    ConsumeFromWhere,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
)
from pocketmq.runtime import logs
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.simulation.histories.recorder import Recorder

log = structlog.get_logger()

_CLOCK = SystemClock()
SEND_TIMEOUT_MS = 1_000
MOST_TRIES = 20
AFTER_FAILURE_S = 0.1


class KeyedSender:
    """Sends the messages of some keys.

    Args:
        producer: A producer without retries.
        recorder: Writes the history.
        queues: A key's hash selects one of them.
        chance: Decides whether a message is sent again after an unknown outcome.
    """

    def __init__(
        self,
        producer: Producer,
        recorder: Recorder,
        queues: Sequence[MessageQueue],
        chance: random.Random,
    ) -> None:
        self._producer = producer
        self._recorder = recorder
        self._queues = queues
        self._chance = chance

    async def run(self, key: str, stopped: asyncio.Event, pause_s: float) -> None:
        """Send one message after the other, until stopped."""
        number = 0
        queue = self._queues[crc32(key.encode()) % len(self._queues)]
        while not stopped.is_set():
            number += 1
            await self._send(queue, key, f"{key}/{number}", stopped)
            await _CLOCK.sleep(pause_s)

    async def _send(self, queue: MessageQueue, key: str, name: str, stopped: asyncio.Event) -> None:
        for _ in range(MOST_TRIES):
            self._recorder.send(key, name)
            message = Message(queue.topic, name.encode(), keys=key)
            try:
                result = await self._producer.send(message, queue=queue)
            except PocketMQError as exc:
                log.info("send.in_doubt", message=name, reason=str(exc))
            else:
                if result.is_ok:
                    place = result.queue
                    self._recorder.ack(name, queue_name(place), result.queue_offset)
                    return
            if stopped.is_set() or self._chance.random() < 0.5:
                return
            await _CLOCK.sleep(AFTER_FAILURE_S)


def queue_name(queue: MessageQueue) -> str:
    """A queue's name in histories."""
    return f"{queue.broker_name}/{queue.topic}/{queue.queue_id}"


async def produce(options: argparse.Namespace, recorder: Recorder, stopped: asyncio.Event) -> None:
    """Send until stopped."""
    producer = Producer(
        f"{options.name}-group",
        nameservers=options.nameservers,
        encoding=options.encoding,
        retry_times_when_send_failed=0,
        send_timeout_ms=SEND_TIMEOUT_MS,
    )
    queues = [
        MessageQueue(options.topic, broker, number)
        for broker in options.brokers.split(",")
        for number in range(options.queues)
    ]
    sender = KeyedSender(producer, recorder, queues, random.Random(options.name))
    async with producer:
        _ready(options.name)
        keys = [f"{options.name}.{number}" for number in range(options.keys)]
        await asyncio.gather(*(sender.run(key, stopped, options.pause_s) for key in keys))


async def consume(options: argparse.Namespace, recorder: Recorder, stopped: asyncio.Event) -> None:
    """Consume until stopped."""

    async def listener(message: MessageExt) -> None:
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        name = message.body.decode(errors="replace")
        recorder.receive(options.group, queue_name(queue), message.queue_offset, name)

    consumer = PushConsumer(
        options.group,
        nameservers=options.nameservers,
        encoding=options.encoding,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        persist_consumer_offset_interval_ms=500,
    )
    consumer.subscribe(options.topic)
    consumer.listen(listener, orderly=options.orderly)
    if options.orderly:
        recorder.orderly(options.group)
    async with consumer:
        _ready(options.name)
        await stopped.wait()


def _ready(name: str) -> None:
    print(ready_line(role="client", name=name, port=0, pid=os.getpid()), flush=True)


async def _main(options: argparse.Namespace) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    with Recorder(options.history) as recorder:
        await (produce if options.what == "producer" else consume)(options, recorder, stopped)


def main() -> None:
    """Run one client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["producer", "consumer"])
    parser.add_argument("--name", required=True)
    parser.add_argument("--history", type=Path, required=True, help="file to append to")
    parser.add_argument("--nameservers", required=True)
    parser.add_argument("--encoding", default="msgpack")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--brokers", default="broker-a", help="producer: names, comma-separated")
    parser.add_argument("--queues", type=int, default=4, help="producer: on each broker")
    parser.add_argument("--keys", type=int, default=16, help="producer: keys sent concurrently")
    parser.add_argument("--pause-s", type=float, default=0.01, help="producer: pause per send")
    parser.add_argument("--group", default="readers", help="consumer")
    parser.add_argument("--orderly", action="store_true", help="consumer")
    options = parser.parse_args()
    logs.configure("info")
    asyncio.run(_main(options))


if __name__ == "__main__":
    main()
