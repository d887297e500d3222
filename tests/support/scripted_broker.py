"""A broker of a few dicts on a memory network, for tests of clients: it does what a test tells it.

Together with `ScriptedNameServer` it answers what clients ask, keeps messages in lists and holds
pulls. Faults are set from outside: refuse a code, keep silent, close the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pocketmq.protocol.bodies.clients import (
    ConsumerList,
    HeartbeatData,
    LockBatchBody,
    LockedQueues,
)
from pocketmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply, handles
from pocketmq.protocol.headers.clients import (
    GetConsumerListRequestHeader,
    HeartbeatResponseHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from pocketmq.protocol.headers.offsets import (
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.batch import decode_batch
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.stored.record import decode_record, encode_record
from pocketmq.protocol.transport.memory import MemoryListener, MemoryNetwork

HOST = pack_host("127.0.0.1", 10911)


@dataclass
class Stored:
    """One message as the broker keeps it."""

    record: bytes
    tags: str | None = None

    @property
    def message(self) -> MessageExt:
        return decode_record(self.record)


@dataclass
class Held:
    """A pull that waits for a message."""

    peer: Peer
    request: Command
    header: PullMessageRequestHeader


@dataclass
class ScriptedBroker:
    """One master."""

    name: str
    port: int
    queues: dict[tuple[str, int], list[Stored]] = field(default_factory=dict)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """(group, topic, queue id) -> committed."""
    clients: dict[str, HeartbeatData] = field(default_factory=dict)
    peers: dict[str, Peer] = field(default_factory=dict)
    extra_members: list[str] = field(default_factory=list)
    """Client ids that count as members of every group."""
    seen: list[Command] = field(default_factory=list)
    refuse: dict[int, Callable[[Command], Command | None]] = field(default_factory=dict)
    """Request code -> what to answer instead; None keeps silent."""
    postpone: set[int] = field(default_factory=set)
    """Request codes that `answer_postponed` answers."""
    unregistered: list[UnregisterClientRequestHeader] = field(default_factory=list)
    sent_back: list[ConsumerSendMsgBackRequestHeader] = field(default_factory=list)
    locks: dict[MessageQueue, str] = field(default_factory=dict)
    held: list[Held] = field(default_factory=list)
    min_offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    send_code: int = ResponseCode.SUCCESS
    listener: MemoryListener | None = None
    postponed: list[Callable[[], None]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self, network: MemoryNetwork) -> None:
        dispatcher = Dispatcher()
        dispatcher.add(self)
        for code, processor in list(dispatcher.single.items()):
            dispatcher.single[code] = self._watched(code, processor)
        self.listener = await network.serve("127.0.0.1", self.port, dispatcher)

    async def stop(self) -> None:
        if self.listener is not None:
            await self.listener.close()
            self.listener = None

    def _watched(
        self, code: int, processor: Callable[[Peer, Command], Reply]
    ) -> Callable[[Peer, Command], Reply]:
        def process(peer: Peer, request: Command) -> Reply:
            self.seen.append(request)
            if code in self.refuse:
                return self.refuse[code](request)
            if code in self.postpone:
                self.postponed.append(lambda: self._answer_now(peer, request, processor))
                return None
            return processor(peer, request)

        return process

    @staticmethod
    def _answer_now(
        peer: Peer, request: Command, processor: Callable[[Peer, Command], Reply]
    ) -> None:
        answer = processor(peer, request)
        assert answer is not None, "it would be answered even later"
        peer.reply(request, answer)

    def answer_postponed(self) -> None:
        """Answer at last what was postponed, and from now on at once."""
        self.postpone.clear()
        waiting, self.postponed = self.postponed, []
        for answer in waiting:
            answer()

    def count(self, code: int) -> int:
        """How often a request came."""
        return sum(1 for request in self.seen if request.code == code)

    def messages(self, topic: str) -> list[MessageExt]:
        """All messages of a topic, queue by queue."""
        return [
            stored.message
            for (each, _), queue in sorted(self.queues.items())
            if each == topic
            for stored in queue
        ]

    def notify(self, group: str) -> None:
        """Tell every client that the group changed."""
        for peer in self.peers.values():
            if peer.is_open:
                peer.oneway(NotifyConsumerIdsChangedRequestHeader(consumer_group=group))

    # -- sending --------------------------------------------------------------------------------

    @handles(RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    def send(self, _peer: Peer, request: Command) -> Reply:
        header_type = (
            SendMessageRequestHeader
            if request.code == RequestCode.SEND_MESSAGE
            else SendMessageRequestHeaderV2
        )
        header: SendMessageRequestHeader | SendMessageRequestHeaderV2 = request.header(header_type)  # type: ignore[type-var]
        first = len(self.queues.setdefault((header.topic, header.queue_id), []))
        if request.code == RequestCode.SEND_BATCH_MESSAGE:
            for entry in decode_batch(request.body_view):
                self.put(
                    header.topic,
                    header.queue_id,
                    bytes(entry.body),
                    properties=entry.properties.decode(),
                    flag=entry.flag,
                )
        else:
            self.put(
                header.topic,
                header.queue_id,
                bytes(request.body_view),
                properties=header.properties,
                flag=header.flag,
                sys_flag=header.sys_flag,
                reconsume_times=header.reconsume_times,
            )
        return request.reply(
            SendMessageResponseHeader(
                msg_id=offset_msg_id(HOST, first), queue_id=header.queue_id, queue_offset=first
            ),
            code=self.send_code,
        )

    def put(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        *,
        tags: str | None = None,
        properties: str = "",
        flag: int = 0,
        sys_flag: int = 0,
        reconsume_times: int = 0,
    ) -> None:
        """Store a message and wake who waits for it."""
        if tags is not None:
            properties += f"TAGS\x01{tags}\x02"
        queue = self.queues.setdefault((topic, queue_id), [])
        record = encode_record(
            topic=topic.encode(),
            queue_id=queue_id,
            flag=flag,
            queue_offset=len(queue) + self.min_offsets.get((topic, queue_id), 0),
            physical_offset=sum(len(each) for each in self.queues.values()) * 1000,
            sys_flag=sys_flag,
            born_timestamp_ms=1,
            born_host=HOST,
            store_timestamp_ms=2,
            store_host=HOST,
            reconsume_times=reconsume_times,
            prepared_transaction_offset=0,
            body=body,
            properties=properties.encode(),
        )
        queue.append(Stored(record, tags))
        waiting, self.held = self.held, []
        for held in waiting:
            if (held.header.topic, held.header.queue_id) == (topic, queue_id):
                held.peer.reply(held.request, self._read(held.request, held.header))
            else:
                self.held.append(held)

    def put_many(self, topic: str, queue_id: int, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self.put(topic, queue_id, body)

    # -- pulling --------------------------------------------------------------------------------

    @handles(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    def pull(self, peer: Peer, request: Command) -> Reply:
        header = request.header(PullMessageRequestHeader)
        if header.sys_flag & 1:
            key = (header.consumer_group, header.topic, header.queue_id)
            self.offsets[key] = header.commit_offset
        response = self._read(request, header)
        if response.code == ResponseCode.PULL_NOT_FOUND and header.sys_flag & 2:
            self.held.append(Held(peer, request, header))
            return None
        return response

    def release_held(self) -> None:
        """Answer every held pull: nothing new."""
        waiting, self.held = self.held, []
        for held in waiting:
            held.peer.reply(held.request, self._read(held.request, held.header))

    def _read(self, request: Command, header: PullMessageRequestHeader) -> Command:
        queue = self.queues.get((header.topic, header.queue_id), [])
        least = self.min_offsets.get((header.topic, header.queue_id), 0)
        most = least + len(queue)
        at = header.queue_offset
        found = queue[at - least : at - least + header.max_msg_nums] if least <= at < most else []
        if found:
            code, next_offset = ResponseCode.SUCCESS, at + len(found)
        elif at == most:
            code, next_offset = ResponseCode.PULL_NOT_FOUND, at
        else:
            code, next_offset = ResponseCode.PULL_OFFSET_MOVED, least if at < least else most
        return request.reply(
            PullMessageResponseHeader(
                suggest_which_broker_id=0,
                next_begin_offset=next_offset,
                min_offset=least,
                max_offset=most,
            ),
            b"".join(stored.record for stored in found),
            code=code,
        )

    @handles(RequestCode.CONSUMER_SEND_MSG_BACK)
    def send_back(self, _peer: Peer, request: Command) -> Reply:
        self.sent_back.append(request.header(ConsumerSendMsgBackRequestHeader))
        return request.reply()

    # -- offsets --------------------------------------------------------------------------------

    @handles(RequestCode.QUERY_CONSUMER_OFFSET)
    def query_offset(self, _peer: Peer, request: Command) -> Reply:
        header = request.header(QueryConsumerOffsetRequestHeader)
        stored = self.offsets.get((header.consumer_group, header.topic, header.queue_id))
        if stored is None:
            return request.reply(code=ResponseCode.QUERY_NOT_FOUND)
        return request.reply(OffsetResponseHeader(offset=stored))

    @handles(RequestCode.UPDATE_CONSUMER_OFFSET)
    def update_offset(self, _peer: Peer, request: Command) -> Reply:
        header = request.header(UpdateConsumerOffsetRequestHeader)
        key = (header.consumer_group, header.topic, header.queue_id)
        self.offsets[key] = header.commit_offset
        return request.reply()

    @handles(RequestCode.GET_MAX_OFFSET)
    def max_offset(self, _peer: Peer, request: Command) -> Reply:
        key = (str(request.fields["topic"]), int(str(request.fields["queueId"])))
        most = self.min_offsets.get(key, 0) + len(self.queues.get(key, []))
        return request.reply(OffsetResponseHeader(offset=most))

    @handles(RequestCode.GET_MIN_OFFSET)
    def min_offset(self, _peer: Peer, request: Command) -> Reply:
        key = (str(request.fields["topic"]), int(str(request.fields["queueId"])))
        return request.reply(OffsetResponseHeader(offset=self.min_offsets.get(key, 0)))

    @handles(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP)
    def search_offset(self, _peer: Peer, request: Command) -> Reply:
        request.header(SearchOffsetRequestHeader)
        return request.reply(OffsetResponseHeader(offset=1))

    # -- clients --------------------------------------------------------------------------------

    @handles(RequestCode.HEART_BEAT)
    def heartbeat(self, peer: Peer, request: Command) -> Reply:
        data = decode_body(request.body_view, HeartbeatData, request.encoding)
        self.clients[data.client_id] = data
        self.peers[data.client_id] = peer
        return request.reply(HeartbeatResponseHeader())

    @handles(RequestCode.UNREGISTER_CLIENT)
    def unregister(self, _peer: Peer, request: Command) -> Reply:
        header = request.header(UnregisterClientRequestHeader)
        self.unregistered.append(header)
        self.clients.pop(header.client_id, None)
        self.peers.pop(header.client_id, None)
        if header.consumer_group is not None:
            self.notify(header.consumer_group)
        return request.reply()

    @handles(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    def consumer_ids(self, _peer: Peer, request: Command) -> Reply:
        group = request.header(GetConsumerListRequestHeader).consumer_group
        members = [
            client_id
            for client_id, data in self.clients.items()
            if any(each.group_name == group for each in data.consumer_data_set)
        ]
        if not members:
            return request.reply(code=ResponseCode.SYSTEM_ERROR, remark="no consumer")
        body = ConsumerList(consumer_id_list=members + self.extra_members)
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.CHECK_CLIENT_CONFIG)
    def check_client(self, _peer: Peer, request: Command) -> Reply:
        return request.reply()

    @handles(RequestCode.LOCK_BATCH_MQ)
    def lock(self, _peer: Peer, request: Command) -> Reply:
        body = decode_body(request.body_view, LockBatchBody, request.encoding)
        granted = [
            queue
            for queue in body.mq_set
            if self.locks.setdefault(queue, body.client_id) == body.client_id
        ]
        return request.reply(
            body=encode_body(LockedQueues(lock_ok_mq_set=granted), request.encoding)
        )

    @handles(RequestCode.UNLOCK_BATCH_MQ)
    def unlock(self, _peer: Peer, request: Command) -> Reply:
        body = decode_body(request.body_view, LockBatchBody, request.encoding)
        for queue in body.mq_set:
            if self.locks.get(queue) == body.client_id:
                del self.locks[queue]
        return request.reply()


@dataclass
class ScriptedNameServer:
    """Routes from a dict."""

    port: int
    routes: dict[str, TopicRouteData] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    listener: MemoryListener | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self, network: MemoryNetwork) -> None:
        dispatcher = Dispatcher()
        dispatcher.add(self)
        self.listener = await network.serve("127.0.0.1", self.port, dispatcher)

    async def stop(self) -> None:
        if self.listener is not None:
            await self.listener.close()
            self.listener = None

    def add_topic(
        self, topic: str, brokers: Sequence[ScriptedBroker], *, queues: int = 4, perm: int = 6
    ) -> None:
        """Let a topic have queues on brokers."""
        self.routes[topic] = TopicRouteData(
            queue_datas=[
                QueueData(
                    broker_name=broker.name,
                    read_queue_nums=queues,
                    write_queue_nums=queues,
                    perm=perm,
                )
                for broker in brokers
            ],
            broker_datas=[
                BrokerData(
                    cluster="DefaultCluster",
                    broker_name=broker.name,
                    broker_addrs={0: broker.address},
                )
                for broker in brokers
            ],
        )

    @handles(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    def route(self, _peer: Peer, request: Command) -> Reply:
        topic = request.header(GetRouteInfoRequestHeader).topic
        self.seen.append(topic)
        route = self.routes.get(topic)
        if route is None:
            return request.reply(code=ResponseCode.TOPIC_NOT_EXIST, remark=f"no topic {topic}")
        return request.reply(body=encode_body(route, request.encoding))
