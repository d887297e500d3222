"""Measures PocketMQ's client in its own process; prints one JSON line.

python client_load.py produce --nameserver H:P --tasks 64 --messages 50000
    python client_load.py pull --address H:P --topic T --messages 100000
python client_load.py end-to-end --nameserver H:P --messages 50000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import operator
import time

import uvloop

from pocketmq.client import (
    Admin,
    ConsumeFromWhere,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    PushConsumer,
)
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.stored.record import decode_records
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork

BODY = b"x" * 1024


async def send_all(producer: Producer, topic: str, tasks: int, messages: int) -> float:
    """Seconds for `messages` acknowledged sends by `tasks` coroutines."""
    left = messages

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await producer.send(Message(topic, BODY, tags="TagA"))

    await producer.send(Message(topic, BODY))  # fetches the route and opens the connection
    began = time.perf_counter()
    await asyncio.gather(*[work() for _ in range(tasks)])
    return time.perf_counter() - began


async def produce(options: argparse.Namespace) -> dict[str, float]:
    async with Producer("bench-producer", nameservers=options.nameserver) as producer:
        used_s = time.process_time()
        seconds = await send_all(producer, options.topic, options.tasks, options.messages)
        used_s = time.process_time() - used_s
    return {"messages": options.messages, "seconds": seconds, "cpu_s": used_s}


async def pull(options: argparse.Namespace) -> dict[str, float]:
    """One pull at a time per queue, 32 messages each, decoded; some of each are taken."""
    client = RemotingClient(TcpNetwork())
    got = 0
    take = operator.attrgetter(*options.take.split(",")) if options.take else None

    async def drain(queue_id: int) -> None:
        nonlocal got
        offset = 0
        while got < options.messages:
            response = await client.call(
                options.address,
                PullMessageRequestHeader(
                    consumer_group="TOOLS_CONSUMER",
                    topic=options.topic,
                    queue_id=queue_id,
                    queue_offset=offset,
                    max_msg_nums=32,
                    sys_flag=PullSysFlag.SUBSCRIPTION,
                    subscription="*",
                ),
            )
            if response.code != 0:
                return
            header = response.header(PullMessageResponseHeader)
            messages = decode_records(response.body_view, broker_name="b")
            if take is not None:
                for message in messages:
                    take(message)
            got += len(messages)
            offset = header.next_begin_offset if not options.fixed else 0

    await client.channel(options.address)
    began, used_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*[drain(queue_id) for queue_id in range(4)])
    seconds, used_s = time.perf_counter() - began, time.process_time() - used_s
    await client.close()
    return {"messages": got, "seconds": seconds, "cpu_s": used_s}


async def create_everywhere(nameserver: str, topic: str) -> set[MessageQueue]:
    """Create a topic on all brokers; returns its queues when the nameserver knows them all.

    Created by its first messages it would be on one broker at first, and the consumer would
    know the others only after its next route and rebalance, up to 50 s later (P-3, C-20).
    """
    async with Admin(nameservers=nameserver) as admin:
        brokers = await admin.brokers()
        await admin.create_topic(topic, queues=4)
        queues = set[MessageQueue]()
        while len(queues) < 4 * len(brokers):
            queues = set(await admin.subscribe_queues(topic))
    return queues


async def end_to_end(options: argparse.Namespace) -> dict[str, float]:
    got = 0
    done = asyncio.Event()

    async def count(messages: list[MessageExt], _context: object) -> None:
        nonlocal got
        got += len(messages)
        if got >= options.messages:
            done.set()

    consumer = PushConsumer(
        "bench-consumer",
        nameservers=options.nameserver,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        consume_message_batch_max_size=32,
    )
    consumer.subscribe(options.topic, "*")
    consumer.listen_batch(count)
    queues = await create_everywhere(options.nameserver, options.topic)
    async with Producer("bench-producer", nameservers=options.nameserver) as producer, consumer:
        while not queues <= set(consumer.assignment):  # noqa: ASYNC110 - its first rebalance
            await asyncio.sleep(0.01)
        began = time.perf_counter()
        await send_all(producer, options.topic, options.tasks, options.messages)
        await asyncio.wait_for(done.wait(), 60)
        seconds = time.perf_counter() - began
    return {"messages": got, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["produce", "pull", "end-to-end"])
    parser.add_argument("--nameserver")
    parser.add_argument("--address")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--take", default="", help="pull: what is taken of each message")
    parser.add_argument("--fixed", action="store_true", help="the server ignores offsets")
    options = parser.parse_args()
    work = {"produce": produce, "pull": pull, "end-to-end": end_to_end}[options.kind]
    print(json.dumps(uvloop.run(work(options))))


if __name__ == "__main__":
    main()
