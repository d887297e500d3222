"""The thin edge: PocketMQ's client and RocketMQ's, told to do the same public things."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Protocol

from pocketmq.client import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    LitePullConsumer,
    Message,
    MessageExt,
    MessageModel,
    MessageQueue,
    MessageSelector,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from pocketmq.client.config import ClientOptions
from pocketmq.runtime.errors import PocketMQError
from support.obedient_java import obeying

PATIENCE_S = 120.0
"""For one public action."""
POLL_MS = 1_000
SEND_TIMEOUT_MS = API_TIMEOUT_MS = 60_000


class Clients(Protocol):
    """Whoever has producers and consumers, by name."""

    async def tell(self, verb: str, name: str, **options: str) -> str:
        """Do one thing: what came of it, or `failed` and the exception, after a tab.

        Verbs and options are those of `Obedient.java`.
        """
        ...


Client = Producer | PushConsumer | LitePullConsumer | PullConsumer


class OurClients:
    """PocketMQ's, in this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, Client] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def tell(self, verb: str, name: str, **options: str) -> str:
        """See `Clients`."""
        try:
            match verb:
                case "producer":
                    await self._start(name, _producer(options))
                case "consumer":
                    await self._start(name, self._consumer(name, options))
                case "go":
                    for _ in range(int(options.get("times", "1"))):
                        self._turns[name].release()
                case "puller":
                    await self._start(name, await _puller(options))
                case "reader":
                    await self._start(name, PullConsumer(options["group"], **_shared(options)))
                case "send":
                    await _send(self._running[name], options)
                case "assign" | "poll" | "commit":
                    await _pull(verb, self._running[name], options)
                case "queues" | "bounds" | "read" | "update" | "progress":
                    return await _read(verb, self._running[name], options)
                case "stop":
                    await self._running.pop(name).stop()
                case _:
                    raise ValueError(verb)
        except PocketMQError as exc:
            return f"failed\t{type(exc).__name__}: {exc}"
        return "ok"

    async def stop(self) -> None:
        """Stop those that run still."""
        for each in list(self._running.values()):
            await each.stop()

    async def _start(self, name: str, client: Client) -> None:
        self._running[name] = client
        await client.start()

    def _consumer(self, name: str, options: dict[str, str]) -> PushConsumer:
        consumer = PushConsumer(
            options["group"],
            consume_from_where=(
                ConsumeFromWhere.FIRST_OFFSET
                if options.get("from") == "first"
                else ConsumeFromWhere.LAST_OFFSET
            ),
            message_model=(
                MessageModel.BROADCASTING if "broadcasting" in options else MessageModel.CLUSTERING
            ),
            local_offset_store_dir=self._folder / "offsets",
            client_rebalance="pop" not in options,
            **_shared(options),
        )
        sql = options.get("sql")
        wanted = MessageSelector.by_sql(sql) if sql else options.get("tags", "*")
        consumer.subscribe(options["topic"], wanted)
        to_fail = itertools.chain([True] * int(options.get("fail", "0")), itertools.repeat(False))
        turn = self._turns[name] = asyncio.Semaphore(0)

        async def concurrent(_message: MessageExt) -> ConsumeConcurrentlyStatus:
            status = ConsumeConcurrentlyStatus
            await turn.acquire()
            return status.RECONSUME_LATER if next(to_fail) else status.CONSUME_SUCCESS

        async def orderly(_message: MessageExt) -> ConsumeOrderlyStatus:
            status = ConsumeOrderlyStatus
            await turn.acquire()
            return status.SUSPEND_CURRENT_QUEUE_A_MOMENT if next(to_fail) else status.SUCCESS

        if "orderly" in options:
            consumer.listen(orderly, orderly=True)
        else:
            consumer.listen(concurrent)
        return consumer


class _Always:
    """Local transactions that end as they are told."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    async def execute_local_transaction(self, _message: Message, _arg: object) -> TransactionState:
        """What was told."""
        return self._state

    async def check_local_transaction(self, _message: MessageExt) -> TransactionState:
        """A check commits."""
        return TransactionState.COMMIT


def _shared(options: dict[str, str]) -> ClientOptions:
    return {
        "nameservers": options["nameserver"], "client_ip": "127.0.0.1",
        "instance_name": options["instance"], "encoding": "json", "profile": "5.3",
        "api_timeout_ms": API_TIMEOUT_MS,
        "poll_name_server_interval_ms": int(options.get("poll_ms", "30000")),
        "heartbeat_broker_interval_ms": int(options.get("beat_ms", "30000")),
        "persist_consumer_offset_interval_ms": int(options.get("persist_ms", "5000")),
    }  # fmt: skip


def _producer(options: dict[str, str]) -> Producer:
    shared = _shared(options)
    if state := options.get("transaction"):
        listener = _Always(TransactionState[state.removesuffix("_MESSAGE")])
        return TransactionProducer(
            options["group"], listener, send_timeout_ms=SEND_TIMEOUT_MS, **shared
        )
    return Producer(options["group"], send_timeout_ms=SEND_TIMEOUT_MS, **shared)


async def _puller(options: dict[str, str]) -> LitePullConsumer:
    puller = LitePullConsumer(
        options["group"],
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        auto_commit=False,
        **_shared(options),
    )
    if topic := options.get("topic"):
        await puller.subscribe(topic, "*")
    return puller


def _queue(options: dict[str, str]) -> MessageQueue:
    return MessageQueue(options["topic"], options["broker"], int(options["queue"]))


async def _pull(verb: str, puller: Client, options: dict[str, str]) -> None:
    assert isinstance(puller, LitePullConsumer)
    match verb:
        case "assign":
            await puller.assign([_queue(options)])
        case "poll":
            while not await puller.poll(POLL_MS):
                pass
        case _:
            await puller.commit(persist=True)


async def _read(verb: str, reader: Client, options: dict[str, str]) -> str:
    assert isinstance(reader, PullConsumer)
    if verb == "queues":
        return f"{len(await reader.queues(options['topic']))} queues"
    queue = _queue(options)
    match verb:
        case "bounds":
            least, first = await reader.min_offset(queue), await reader.search_offset(queue, 1)
            return f"{least} {first} {await reader.max_offset(queue)}"
        case "read":
            wait = "wait" in options
            result = await reader.pull(queue, "*", int(options["offset"]), 8, wait=wait)
            return f"{result.status.name} {len(result.messages)} {result.next_begin_offset}"
        case "update":
            reader.update_consume_offset(queue, int(options["offset"]))
            return "ok"
        case _:
            return str(await reader.consume_offset(queue, from_store="stored" in options))


async def _send(producer: Client, options: dict[str, str]) -> None:
    assert isinstance(producer, Producer)
    message = Message(
        options["topic"],
        options["body"].encode(),
        tags=options.get("tags"),
        keys=options.get("keys"),
        delay_level=int(options.get("level", "0")),
    )
    match options.get("how", "sync"):
        case "sync":
            await producer.send(message)
        case "oneway":
            await producer.send_oneway(message)
        case "batch":
            await producer.send_batch([message])
        case "queue":
            queue = MessageQueue(options["topic"], options["broker"], 1)
            await producer.send(message, queue=queue)
        case "transaction":
            assert isinstance(producer, TransactionProducer)
            await producer.send_in_transaction(message)
        case how:
            raise ValueError(how)


class TheirClients:
    """RocketMQ's, in one Java process that obeys lines on a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[str]] = {}
        self._reading = asyncio.create_task(self._read(reader))

    async def tell(self, verb: str, name: str, **options: str) -> str:
        """See `Clients`."""
        number = str(next(self._numbers))
        outcome = self._waiting[number] = asyncio.get_running_loop().create_future()
        words = [number, verb, name, *(f"{key}={value}" for key, value in options.items())]
        self._writer.write(("\t".join(words) + "\n").encode())
        return await asyncio.wait_for(outcome, PATIENCE_S)

    async def stop(self) -> None:
        """Listen no more to what it answers."""
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while line := await reader.readline():
            number, _, outcome = line.decode().rstrip("\n").partition("\t")
            self._waiting.pop(number).set_result(outcome)
        for each in self._waiting.values():
            each.set_exception(AssertionError("the Java process has ended"))


@asynccontextmanager
async def their_clients(folder: Path) -> AsyncIterator[TheirClients]:
    """Start the Java process, whose files lie in the folder; it is killed at the end."""
    async with obeying("Obedient", folder) as (reader, writer):
        clients = TheirClients(reader, writer)
        try:
            yield clients
        finally:
            await clients.stop()
