"""Measures the processor time of a client in its own process; prints one JSON line.

    python client_cost_load.py send --nameserver H:P --topic T --messages 50000 --body-bytes 128
    python client_cost_load.py push|iterate|lite|memory --nameserver H:P --topic T --messages 50000
    python client_cost_load.py fill --nameserver H:P --topic T --messages 50000

The broker is another process, so `time.process_time` counts the client alone, what the kernel does
for it included. With `--alone` there is neither broker nor kernel: `scripted_peer.py` answers in
this process, and what it uses is taken off. Consumers read each body; `memory` reads none, and
iterates over messages that were pulled before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from scripted_peer import NAME_SERVER, ScriptedNetwork

from pocketmq.client import (
    Admin,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
)

QUEUES = 4
BATCH = 64
WARM = 2_000


class Spent:
    """Processor seconds of the client since it was made.

    Args:
        network: Whose peer does not count, if it is in this process.
    """

    def __init__(self, network: ScriptedNetwork | None) -> None:
        self._network = network
        self._began_s = self._used_s()
        self._began_at = time.perf_counter()

    def figures(self, messages: int) -> dict[str, float]:
        """What is printed."""
        return {
            "messages": messages,
            "seconds": time.perf_counter() - self._began_at,
            "cpu_s": self._used_s() - self._began_s,
        }

    def _used_s(self) -> float:
        network = self._network
        return time.process_time() - (0.0 if network is None else network.used_s)


def client_options(options: argparse.Namespace) -> dict[str, Any]:
    """What all clients are made with."""
    network = options.network
    return {"nameservers": NAME_SERVER if network else options.nameserver} | (
        {"network": network} if network else {}
    )


async def send(options: argparse.Namespace) -> dict[str, float]:
    """Single sends by `--tasks` coroutines, each of which waits for its answer."""
    body = b"x" * options.body_bytes

    async with Producer("cost", **client_options(options)) as producer:

        async def send_all(messages: int) -> None:
            left = messages

            async def work() -> None:
                nonlocal left
                while left > 0:
                    left -= 1
                    await producer.send(Message(options.topic, body, tags="TagA"))

            await asyncio.gather(*[work() for _ in range(options.tasks)])

        await send_all(WARM)
        spent = Spent(options.network)
        await send_all(options.messages)
        return spent.figures(options.messages)


async def fill(options: argparse.Namespace) -> dict[str, float]:
    """Make the topic and store messages in it, as many in each queue."""
    body = b"x" * options.body_bytes
    async with Admin(**client_options(options)) as admin:
        await admin.create_topic(options.topic, queues=QUEUES)
        queues = await admin.subscribe_queues(options.topic)
        while len(queues) < QUEUES:
            queues = await admin.subscribe_queues(options.topic)
    spent = Spent(options.network)
    stored = 0
    async with Producer("cost", **client_options(options)) as producer:
        while stored < options.messages:
            for queue in queues:
                batch = [Message(options.topic, body, tags="TagA") for _ in range(BATCH)]
                await producer.send_batch(batch, queue=queue)
                stored += BATCH
    return spent.figures(stored)


@asynccontextmanager
async def consuming(options: argparse.Namespace, **settings: int) -> AsyncIterator[PushConsumer]:
    """A push consumer of a new group without a listener, which begins at the first message."""
    consumer = _push_consumer(options, **settings)
    async with consumer:
        yield consumer


def _push_consumer(options: argparse.Namespace, **settings: int) -> PushConsumer:
    consumer = PushConsumer(
        f"cost-{os.getpid()}",
        **client_options(options),
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        pull_threshold_for_queue=settings.get("cached", 1_000),
        consume_concurrently_max_span=settings.get("cached", 2_000),
        consume_message_batch_max_size=32,
    )
    consumer.subscribe(options.topic)
    return consumer


class Tally:
    """What a listener got; it is timed from its first message on."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._wanted: int = options.messages
        self._network: ScriptedNetwork | None = options.network
        self._got = 0
        self._spent = Spent(self._network)
        self._done = asyncio.Event()

    def took(self, count: int) -> None:
        """Count messages."""
        if self._got == 0:
            self._spent = Spent(self._network)
        self._got += count
        if self._got >= self._wanted:
            self._done.set()

    async def figures(self, consumer: PushConsumer) -> dict[str, float]:
        """Run the consumer until its listener has got all."""
        async with consumer:
            await asyncio.wait_for(self._done.wait(), 120)
            return self._spent.figures(self._got)


async def push(options: argparse.Namespace) -> dict[str, float]:
    """A concurrent listener that takes batches of 32."""
    tally = Tally(options)

    async def listen(messages: list[MessageExt], _context: object) -> None:
        tally.took(len(messages))
        for message in messages:
            assert len(message.body) == options.body_bytes

    consumer = _push_consumer(options)
    consumer.listen_batch(listen)
    return await tally.figures(consumer)


async def one(options: argparse.Namespace) -> dict[str, float]:
    """A concurrent listener that takes one message at a time, what most programs have."""
    tally = Tally(options)

    async def listen(message: MessageExt) -> None:
        tally.took(1)
        assert len(message.body) == options.body_bytes

    consumer = _push_consumer(options)
    consumer.listen(listen)
    return await tally.figures(consumer)


async def iterate(options: argparse.Namespace) -> dict[str, float]:
    """`async for` over a push consumer, while it pulls."""
    async with consuming(options) as consumer:
        await anext(aiter(consumer))
        return await _iterate(consumer, options)


async def memory(options: argparse.Namespace) -> dict[str, float]:
    """`async for` over messages that are all in memory, which are handed out and not read."""
    async with consuming(options, cached=65_535) as consumer:
        before, cached = -1, 0
        while cached < options.messages or cached > before:  # until all pulls have ended, too
            await asyncio.sleep(0.2)
            before, cached = cached, _cached(consumer)
        spent, got = Spent(options.network), 0
        async for _ in consumer.take(options.messages):
            got += 1
        return spent.figures(got)


def _cached(consumer: PushConsumer) -> int:
    return sum(each.cached_msg_count for each in consumer.running_info().mq_table.values())


async def _iterate(consumer: PushConsumer, options: argparse.Namespace) -> dict[str, float]:
    got, spent = 0, Spent(options.network)
    async for message in consumer:
        assert len(message.body) == options.body_bytes
        got += 1
        if got == options.messages - 1:
            break
    return spent.figures(got)


async def lite(options: argparse.Namespace) -> dict[str, float]:
    """`poll` of a lite pull consumer, which pulls 32 messages at a time."""
    consumer = LitePullConsumer(
        f"cost-{os.getpid()}",
        **client_options(options),
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        pull_batch_size=32,
    )
    await consumer.subscribe(options.topic)
    async with consumer:
        got = len(await consumer.poll())
        spent, got = Spent(options.network), 0
        while got < options.messages - 32:
            for message in await consumer.poll():
                assert len(message.body) == options.body_bytes
                got += 1
        return spent.figures(got)


KINDS: dict[str, Callable[[argparse.Namespace], Awaitable[dict[str, float]]]] = {
    "send": send,
    "fill": fill,
    "push": push,
    "one": one,
    "iterate": iterate,
    "memory": memory,
    "lite": lite,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--nameserver", default=NAME_SERVER)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--body-bytes", type=int, default=1_024)
    parser.add_argument("--tasks", type=int, default=256)
    parser.add_argument("--alone", action="store_true", help="a peer in this process answers")
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    options = parser.parse_args()
    backlog = 0 if options.kind == "send" else options.messages + 4 * BATCH
    options.network = (
        ScriptedNetwork(options.topic, options.body_bytes, backlog) if options.alone else None
    )

    async def run() -> dict[str, float]:
        return await KINDS[options.kind](options)

    print(json.dumps(asyncio.run(run()) if options.loop == "asyncio" else uvloop.run(run())))


if __name__ == "__main__":
    main()
