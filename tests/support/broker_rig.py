"""A broker on a memory network, a manual clock and small files; clients are only voices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.server import Broker
from pocketmq.broker.store import Disk, StoreConfig
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.bodies.clients import (
    ConsumerData,
    ConsumerList,
    HeartbeatData,
    ProducerData,
)
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import VERSION_5_3_3, Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import (
    GetConsumerListRequestHeader,
    HeartbeatRequestHeader,
    UnregisterClientRequestHeader,
)
from pocketmq.protocol.headers.offsets import (
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pocketmq.protocol.headers.topics import UpdateAndCreateTopicRequestHeader
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.stored.record import decode_records
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.profile import PROFILE_5_X, Profile

START_MS = 1_700_000_000_000
SMALL_FILES: dict[str, Any] = {
    "mapped_file_size_commit_log": 256 * 1024,
    "mapped_file_size_consume_queue": 200 * 20,
    "max_hash_slot_num": 50,
    "max_index_num": 200,
}
SUSPEND = PullSysFlag.SUSPEND
COMMIT = PullSysFlag.COMMIT_OFFSET
SUBSCRIPTION = PullSysFlag.SUBSCRIPTION


PATIENCE_S = 60.0
"""Real seconds; a disk that others use may hold a broker for more than a request's usual 3 s."""


class FakePeer:
    """A connection for tests of managers: remembers what it was told."""

    def __init__(self, address: str = "127.0.0.1:5000") -> None:
        self.address = address
        self.local_address = "127.0.0.1:10911"
        self.encoding = Encoding.MSGPACK
        self.is_open = True
        self.told: list[Header] = []
        self.replies: list[Command | bytes] = []
        self.kept_bytes = 0

    def reply(self, request: Command, response: Command | bytes) -> None:
        self.replies.append(response)

    def oneway(self, header: Header, body: Any = b"") -> None:
        self.told.append(header)

    def keep(self, delta_bytes: int) -> None:
        self.kept_bytes += delta_bytes

    def close(self) -> None:
        self.is_open = False


@dataclass
class Pulled:
    """A pull's answer, read."""

    code: int
    header: PullMessageResponseHeader
    status: str
    messages: list[MessageExt]

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]


@dataclass
class Voice:
    """One client connection."""

    channel: Channel
    heard: list[Command] = field(default_factory=list)
    """Requests that the broker sent here."""

    async def ask(self, header: Header, body: bytes | msgspec.Struct = b"") -> Command:
        """One request, its answer whatever the code; a busy machine may take its time."""
        return await self.channel.request(header, body, timeout_s=PATIENCE_S)

    async def send(
        self,
        topic: str = "orders",
        body: bytes = b"hello",
        *,
        v2: bool = True,
        expect: int = ResponseCode.SUCCESS,
        **fields: Any,
    ) -> SendMessageResponseHeader:
        """Send one message; its place."""
        reply = await self.try_send(topic, body, v2=v2, **fields)
        assert reply.code == expect, reply.remark
        return reply.header(SendMessageResponseHeader)

    async def try_send(
        self, topic: str = "orders", body: bytes = b"hello", *, v2: bool = True, **fields: Any
    ) -> Command:
        """Send one message; the answer, whatever it is. `properties` may be a dict."""
        return await self.ask(send_header(topic, v2=v2, **fields), body)

    async def pull(self, topic: str = "orders", offset: int = 0, **fields: Any) -> Pulled:
        """Pull, with `*` unless told otherwise."""
        return read_pull(await self.ask(pull_header(topic, offset, **fields)))

    async def heartbeat(
        self,
        client_id: str = "127.0.0.1@1",
        *,
        consumers: Sequence[ConsumerData] = (),
        producers: Sequence[str] = (),
        **fields: Any,
    ) -> Command:
        """Send a heartbeat."""
        body = HeartbeatData(
            client_id=client_id,
            consumer_data_set=list(consumers),
            producer_data_set=[ProducerData(group_name=group) for group in producers],
            **fields,
        )
        reply = await self.ask(HeartbeatRequestHeader(), body)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply

    async def members(self, group: str = "readers") -> list[str] | None:
        """Client ids of a group; None when there are none."""
        reply = await self.ask(GetConsumerListRequestHeader(consumer_group=group))
        if reply.code == ResponseCode.SYSTEM_ERROR:
            return None
        return decode_body(reply.body_view, ConsumerList, reply.encoding).consumer_id_list

    async def leave(self, group: str = "readers", client_id: str = "127.0.0.1@1") -> None:
        """UNREGISTER_CLIENT from a consumer group."""
        header = UnregisterClientRequestHeader(client_id=client_id, consumer_group=group)
        assert (await self.ask(header)).code == 0

    async def commit(
        self, offset: int, *, topic: str = "orders", queue_id: int = 0, group: str = "readers"
    ) -> Command:
        """UPDATE_CONSUMER_OFFSET."""
        return await self.ask(
            UpdateConsumerOffsetRequestHeader(
                consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
            )
        )

    async def committed(
        self,
        *,
        topic: str = "orders",
        queue_id: int = 0,
        group: str = "readers",
        **fields: Any,
    ) -> int | None:
        """QUERY_CONSUMER_OFFSET; None for QUERY_NOT_FOUND (22)."""
        header = QueryConsumerOffsetRequestHeader(
            consumer_group=group, topic=topic, queue_id=queue_id, **fields
        )
        reply = await self.ask(header)
        if reply.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        assert reply.code == 0, reply.remark
        return reply.header(OffsetResponseHeader).offset

    async def send_back(
        self, message: MessageExt, *, group: str = "readers", delay_level: int = 0, **fields: Any
    ) -> Command:
        """CONSUMER_SEND_MSG_BACK."""
        return await self.ask(
            ConsumerSendMsgBackRequestHeader(
                offset=message.commit_log_offset,
                group=group,
                delay_level=delay_level,
                origin_topic=message.topic,
                **fields,
            )
        )

    async def create_topic(self, topic: str = "orders", queues: int = 4, **fields: Any) -> None:
        """UPDATE_AND_CREATE_TOPIC."""
        values = {"read_queue_nums": queues, "write_queue_nums": queues, "perm": 6} | fields
        reply = await self.ask(UpdateAndCreateTopicRequestHeader(topic=topic, **values))
        assert reply.code == 0, reply.remark

    def told(self, code: int) -> list[Command]:
        """Requests with this code that the broker sent here."""
        return [command for command in self.heard if command.code == code]


def send_header(
    topic: str = "orders",
    *,
    v2: bool = True,
    properties: dict[str, str] | str | None = None,
    **fields: Any,
) -> SendMessageRequestHeader | SendMessageRequestHeaderV2:
    """A send's header with the values that a test has not to say."""
    text = encode_properties(properties) if isinstance(properties, dict) else properties or ""
    values: dict[str, Any] = {
        "producer_group": "writers",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": START_MS - 5,
        "flag": 0,
        "properties": text,
    } | fields
    return (SendMessageRequestHeaderV2 if v2 else SendMessageRequestHeader)(**values)


def pull_header(topic: str = "orders", offset: int = 0, **fields: Any) -> PullMessageRequestHeader:
    """A pull's header; with the subscription in it, and not held, unless told otherwise."""
    values: dict[str, Any] = {
        "consumer_group": "readers",
        "topic": topic,
        "queue_id": 0,
        "queue_offset": offset,
        "max_msg_nums": 32,
        "sys_flag": SUBSCRIPTION,
        "suspend_timeout_millis": 15_000,
        "subscription": "*",
    } | fields
    return PullMessageRequestHeader(**values)


def read_pull(reply: Command) -> Pulled:
    """A pull's answer; fails for codes that carry no offsets."""
    assert reply.code in (0, 19, 20, 21), f"{reply.code}: {reply.remark}"
    messages = decode_records(reply.body_view) if reply.code == 0 else []
    return Pulled(reply.code, reply.header(PullMessageResponseHeader), reply.remark or "", messages)


def consumer(
    group: str = "readers",
    topics: Sequence[str] | dict[str, str] = ("orders",),
    *,
    version: int = 1,
    **fields: Any,
) -> ConsumerData:
    """One consumer entry of a heartbeat."""
    expressions = topics if isinstance(topics, dict) else dict.fromkeys(topics, "*")
    return ConsumerData(
        group_name=group,
        subscription_data_set=[
            SubscriptionData.parse(topic, expression, version)
            for topic, expression in expressions.items()
        ],
        **fields,
    )


@dataclass
class BrokerRig:
    """What a test of the broker holds in its hands."""

    clock: ManualClock
    network: MemoryNetwork
    broker: Broker

    async def voice(
        self, encoding: Encoding = Encoding.MSGPACK, *, version: int = VERSION_5_3_3
    ) -> Voice:
        """A new connection."""
        heard: list[Command] = []
        dispatcher = Dispatcher()

        def listen(_peer: Any, request: Command) -> None:
            heard.append(request)

        for code in (40, 220, 39):
            dispatcher.register(code, listen)
        channel = await self.network.connect(
            self.broker.address, dispatcher, encoding=encoding, version=version
        )
        return Voice(channel, heard)

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.move_to(self.clock.time_ms() + round(seconds * 1000))

    async def settle(self) -> None:
        """Let what is under way on this loop come to rest, without time passing."""
        await self.clock.move_to(self.clock.time_ms())

    async def queue(self, topic: str, queue_id: int = 0) -> list[MessageExt]:
        """All messages of a queue, straight from the store."""
        messages: list[MessageExt] = []
        while True:
            found = self.broker.store.reads.get_message(topic, queue_id, len(messages), 10_000)
            if not found.count:
                return messages
            messages += decode_records(b"".join(found.records))


@asynccontextmanager
async def running_broker(
    path: Path,
    profile: Profile = PROFILE_5_X,
    *,
    clock: ManualClock | None = None,
    disk: Disk | None = None,
    network: MemoryNetwork | None = None,
    budget: Budget = DEFAULT_BUDGET,
    ip: str = "",
    events: EventSink = NO_EVENTS,
    **options: Any,
) -> AsyncIterator[BrokerRig]:
    """A started broker on `path`; `options` are those of its configuration, `ip` of its name."""
    clock = clock or ManualClock(START_MS)
    network = network or MemoryNetwork()
    store_names = {field.name for field in fields(StoreConfig)}
    store_options = {name: options.pop(name) for name in set(options) & store_names}
    config = BrokerConfig(**{"port": 10911, "data": path / "store", **options})
    store_config = StoreConfig(**(SMALL_FILES | store_options))
    broker = Broker(
        config,
        clock,
        network,
        profile,
        store_config=store_config,
        disk=disk,
        budget=budget,
        ip=ip,
        events=events,
    )
    await broker.start()
    try:
        yield BrokerRig(clock, network, broker)
    finally:
        await broker.stop()
