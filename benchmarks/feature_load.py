"""Measures transactions, timers, pulls and pops in its own process; prints one JSON line.

    python feature_load.py plain|timer|transaction|transaction-thread --nameserver H:P --topic T
    python feature_load.py pull|pop --nameserver H:P --address H:P --topic T
    python feature_load.py pull-bare|pop-batch|pop-single --nameserver H:P --address H:P --topic T

A transaction counts when its message can be consumed, a popped message when its ack is answered, a
pulled one when its offset is the one to commit. `pull` and `pop` do that with the parts of a push
consumer, without its listener: the pull service, whose pulls carry the offset to commit, and the
pop client, whose next pop does not wait for the acks, which it gathers. The others send their
requests by a bare connection. `pull-bare` commits nothing; `pop-batch` waits for one request that
acknowledges the whole pop, `pop-single` for a request for each message.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import uvloop

from pocketmq.client import (
    Admin,
    Message,
    MessageExt,
    MessageQueue,
    Producer,
    TransactionListener,
    TransactionProducer,
    TransactionState,
)
from pocketmq.client.config import ClientConfig
from pocketmq.client.consumer.popping.receipts import handle_of, put_handles_on
from pocketmq.client.consumer.popping.requests import PopClient
from pocketmq.client.instance import ClientInstance
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.pulling.pull_plan import (
    BeforePull,
    PullRequest,
    PullStatus,
    Step,
    pull_header,
)
from pocketmq.client.rebalance.claims import Claims
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pocketmq.protocol.headers.pop import (
    AckMessageRequestHeader,
    BatchAckMessageRequestHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.messages.receipts import ReceiptHandle
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.stored.record import decode_records
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork

BODY = b"x" * 1024
QUEUES = 4
GROUP = "bench-poppers"
INVISIBLE_MS = 300_000


class Puller:
    """Pulls one topic as a push consumer does, and commits what it has got with its next pull."""

    group = GROUP

    def __init__(self, instance: ClientInstance, options: argparse.Namespace) -> None:
        self._service = instance.pull_service
        self._subscription = SubscriptionData.parse(options.topic, "*", 0)
        self._left = options.messages
        self._commits: dict[PullRequest, int] = {}
        self.got_all = asyncio.Event()

    def start(self, claims: Claims, queue: MessageQueue) -> None:
        """Pull a queue, all the time."""
        request = PullRequest(ProcessQueue(claims.take(queue, 0.0), 0.0), 0)
        self._commits[request] = 0
        self._service.execute_now(self, request)

    def before_pull(self, request: PullRequest) -> BeforePull:
        return BeforePull(Step.PULL)

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        return pull_header(
            request,
            self.group,
            self._subscription,
            commit_offset=self._commits[request],
            max_msg_nums=32,
            post_subscription=True,  # there is no heartbeat here
            broker_id=broker.broker_id,
        )

    async def find_start(self, request: PullRequest) -> bool:
        return True

    def pulled(
        self,
        request: PullRequest,
        status: PullStatus,
        header: PullMessageResponseHeader,
        messages: list[MessageExt],
    ) -> int:
        request.next_offset = header.next_begin_offset
        request.process_queue.put(messages)
        self._commits[request] = request.process_queue.remove(messages)
        self._left -= len(messages)
        if self._left <= 0:
            self.got_all.set()
        return 0


class Commits:
    """Commits each transaction at once."""

    async def execute_local_transaction(
        self, message: Message, argument: object
    ) -> TransactionState:
        return TransactionState.COMMIT

    async def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return TransactionState.COMMIT


class CommitsInThread:
    """The same with plain functions, which run in a thread: a change of threads and back each."""

    def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return TransactionState.COMMIT


async def send(options: argparse.Namespace) -> dict[str, float]:
    """Sends by many coroutines, until all that may be consumed at once is in its queues."""
    left, topic = options.messages, options.topic
    delay_ms = 3_600_000 if options.kind == "timer" else None
    listeners: dict[str, TransactionListener] = {
        "transaction": Commits(),
        "transaction-thread": CommitsInThread(),
    }
    listener = listeners.get(options.kind)
    producer = (
        Producer("bench", nameservers=options.nameserver)
        if listener is None
        else TransactionProducer("bench", listener, nameservers=options.nameserver)
    )

    async def work() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            message = Message(topic, BODY, tags="TagA", delay_ms=delay_ms)
            if isinstance(producer, TransactionProducer):
                await producer.send_in_transaction(message, None)
            else:
                await producer.send(message)

    async with producer, Admin(nameservers=options.nameserver) as admin:
        await admin.create_topic(topic, queues=QUEUES)
        await producer.send(Message(topic, BODY))  # fetches the route and opens the connection
        [broker_name] = await admin.brokers()
        queues = [MessageQueue(topic, broker_name, queue) for queue in range(QUEUES)]
        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(options.tasks)))
        expected = 1 + (0 if delay_ms else options.messages)
        while sum([await admin.max_offset(each) for each in queues]) < expected:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        seconds = time.perf_counter() - began
    return {"messages": options.messages, "seconds": seconds}


async def pull(client: RemotingClient, options: argparse.Namespace, queue_id: int) -> int:
    """Pull one queue to its end."""
    offset = got = 0
    while True:
        header = PullMessageRequestHeader(
            consumer_group="TOOLS_CONSUMER",
            topic=options.topic,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=PullSysFlag.SUBSCRIPTION,
            subscription="*",
        )
        response = await client.call(options.address, header)
        if response.code != 0:
            return got
        got += len(decode_records(response.body_view, broker_name="b"))
        offset = response.header(PullMessageResponseHeader).next_begin_offset


def _pop_header(options: argparse.Namespace, queue_id: int) -> PopMessageRequestHeader:
    return PopMessageRequestHeader(
        consumer_group=GROUP,
        topic=options.topic,
        queue_id=queue_id,
        max_msg_nums=32,
        invisible_time=INVISIBLE_MS,
        poll_time=0,
        born_time=round(time.time() * 1000),
    )


async def pop(client: RemotingClient, options: argparse.Namespace, queue_id: int) -> int:
    """Pop one queue to its end, and acknowledge everything before the next pop."""
    got = 0
    while True:
        response = await client.call(options.address, _pop_header(options, queue_id))
        if response.code != 0:
            return got
        messages = decode_records(response.body_view, broker_name="b")
        put_handles_on(messages, response.header(PopMessageResponseHeader), "b")
        handles = [handle_of(message) for message in messages]
        if options.kind == "pop-batch":
            await client.call(
                options.address, BatchAckMessageRequestHeader(), _batch(options, handles)
            )
        else:
            await asyncio.gather(
                *(client.call(options.address, _ack(options, handle)) for handle in handles)
            )
        got += len(messages)


async def pop_on(client: PopClient, broker_name: str, options: argparse.Namespace) -> int:
    """Pop and acknowledge one topic as a push consumer does, all queues at once."""

    async def one(queue_id: int) -> int:
        got = 0
        acks: list[asyncio.Future[None]] = []
        while messages := await client.pop(broker_name, _pop_header(options, queue_id)):
            acks += client.acks(messages)
            got += len(messages)
        await asyncio.gather(*acks)
        return got

    return sum(await asyncio.gather(*(one(queue_id) for queue_id in range(QUEUES))))


async def pull_on(instance: ClientInstance, broker_name: str, options: argparse.Namespace) -> int:
    """Pull one topic as a push consumer does, all queues at once."""
    puller, claims = Puller(instance, options), Claims()
    for queue_id in range(QUEUES):
        puller.start(claims, MessageQueue(options.topic, broker_name, queue_id))
    await puller.got_all.wait()
    return int(options.messages)


def _ack(options: argparse.Namespace, handle: ReceiptHandle) -> AckMessageRequestHeader:
    return AckMessageRequestHeader(
        consumer_group=GROUP,
        topic=options.topic,
        queue_id=handle.queue_id,
        extra_info=str(handle),
        offset=handle.queue_offset,
    )


def _batch(options: argparse.Namespace, handles: list[ReceiptHandle]) -> BatchAckBody:
    first = handles[0]
    entry = BatchAck(
        consumer_group=GROUP,
        topic=options.topic,
        retry="0",
        start_offset=first.start_offset,
        queue_id=first.queue_id,
        revive_queue_id=first.revive_queue_id,
        pop_time=first.pop_time_ms,
        invisible_time=first.invisible_ms,
        bits=ack_bits(handle.queue_offset - first.start_offset for handle in handles),
    )
    return BatchAckBody(broker_name="b", acks=[entry])


async def receive(options: argparse.Namespace) -> dict[str, float]:
    """One coroutine a queue takes everything that a topic has."""
    if options.kind in ("pop", "pull"):
        return await receive_as_consumer(options)
    client = RemotingClient(TcpNetwork())
    await client.channel(options.address)
    take: Callable[[RemotingClient, argparse.Namespace, int], Awaitable[int]] = (
        pull if options.kind == "pull-bare" else pop
    )
    began, began_cpu = time.perf_counter(), time.process_time()
    got = await asyncio.gather(*(take(client, options, queue_id) for queue_id in range(QUEUES)))
    seconds, used_s = time.perf_counter() - began, time.process_time() - began_cpu
    await client.close()
    return {"messages": sum(got), "seconds": seconds, "cpu_s": used_s}


async def receive_as_consumer(options: argparse.Namespace) -> dict[str, float]:
    """The same with the parts of a consumer."""
    config = ClientConfig(nameservers=(options.nameserver,))
    instance = ClientInstance(config)
    await instance.lookups.refresh_route(options.topic)
    [(broker_name, _, address)] = instance.routes.addresses()
    await instance.api.channel(address)
    began, began_cpu = time.perf_counter(), time.process_time()
    if options.kind == "pull":
        got = await pull_on(instance, broker_name, options)
    else:
        client = PopClient(GROUP, instance, config.max_body_bytes)
        got = await pop_on(client, broker_name, options)
    seconds, used_s = time.perf_counter() - began, time.process_time() - began_cpu
    await instance.stop()
    return {"messages": got, "seconds": seconds, "cpu_s": used_s}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sends, receives = (
        ("plain", "timer", "transaction", "transaction-thread"),
        ("pull", "pop", "pull-bare", "pop-batch", "pop-single"),
    )
    parser.add_argument("kind", choices=[*sends, *receives])
    parser.add_argument("--nameserver")
    parser.add_argument("--address")
    parser.add_argument("--topic", default="bench")
    parser.add_argument("--tasks", type=int, default=64)
    parser.add_argument("--messages", type=int, default=20_000)
    options = parser.parse_args()
    work = send if options.kind in sends else receive
    print(json.dumps(uvloop.run(work(options))))


if __name__ == "__main__":
    main()
