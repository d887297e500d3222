"""A name server and a broker in the client's own process, without sockets and without its cost.

`ScriptedNetwork` takes the place of a client's network. What the peer does is measured and can be
taken off: `used_s` is the processor time that went into it. It answers sends as a broker does, byte
for byte; pulls with records that were made before; and whatever else a client asks as briefly as
the client puts up with.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable

from pocketmq.protocol.bodies.clients import ConsumerList, HeartbeatData
from pocketmq.protocol.bodies.route import BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pocketmq.protocol.command import VERSION_5_3_3, Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.frame import FrameDecoder, encode_frame
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.clients import (
    GetConsumerListRequestHeader,
    HeartbeatResponseHeader,
)
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.headers.send import SendMessageRequestHeaderV2
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.stored.record import encode_record
from pocketmq.protocol.transport.channel import Channel

NAME_SERVER = "127.0.0.1:9876"
BROKER = "127.0.0.1:10911"
HOST = pack_host("127.0.0.1", 10911)
QUEUES = 4
MOST_PER_PULL = 32
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")


class ScriptedNetwork:
    """Connects a client to the peer of this process.

    Args:
        topic: The one that there is.
        body_bytes: Of each message that is pulled.
        backlog: Messages in all queues together.
    """

    def __init__(self, topic: str, body_bytes: int, backlog: int) -> None:
        self.used_s = 0.0
        """Processor seconds of the peer."""
        self._topic = topic
        self._clients: list[str] = []
        self._stored = 0
        self._pulled = [_records(topic, queue, body_bytes, backlog // QUEUES) for queue in range(4)]
        self._last = backlog // QUEUES
        self._send_reply = _SendReply()
        self._answers: dict[int, Callable[[Command], Command | bytes | None]] = {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._members,
            RequestCode.QUERY_CONSUMER_OFFSET: lambda request: request.reply(
                code=ResponseCode.QUERY_NOT_FOUND
            ),
            RequestCode.PULL_MESSAGE: self._pull,
            RequestCode.LITE_PULL_MESSAGE: self._pull,
            RequestCode.SEND_MESSAGE_V2: self._send,
        }

    async def connect(
        self,
        address: str,
        dispatcher: Dispatcher,
        *,
        encoding: Encoding = Encoding.MSGPACK,
        version: int = VERSION_5_3_3,
        timeout_s: float = 3.0,
        on_close: Callable[[Channel], None] | None = None,
        credentials: Credentials | None = None,
    ) -> Channel:
        """An open channel to the peer, whatever the address."""
        channel = Channel(
            dispatcher,
            encoding=encoding,
            version=version,
            on_close=on_close,
            credentials=credentials,
        )
        channel.connection_made(_Transport(self, channel, address))
        return channel

    def answer(self, request: Command) -> bytes:
        """The frame of the answer; empty: none."""
        if request.is_oneway:
            return b""
        make = self._answers.get(request.code)
        reply = request.reply() if make is None else make(request)
        if reply is None:
            return b""
        return reply if isinstance(reply, bytes) else b"".join(encode_frame(reply))

    def _route(self, request: Command) -> Command:
        topic = str(request.fields["topic"])
        if topic != self._topic:
            return request.reply(code=ResponseCode.TOPIC_NOT_EXIST)
        route = TopicRouteData(
            queue_datas=[
                QueueData(
                    broker_name="broker-0",
                    read_queue_nums=QUEUES,
                    write_queue_nums=QUEUES,
                    perm=6,
                )
            ],
            broker_datas=[
                BrokerData(cluster="c", broker_name="broker-0", broker_addrs={0: BROKER})
            ],
        )
        return request.reply(body=encode_body(route, request.encoding))

    def _heartbeat(self, request: Command) -> Command:
        self._clients = [decode_body(request.body_view, HeartbeatData, request.encoding).client_id]
        return request.reply(HeartbeatResponseHeader())

    def _members(self, request: Command) -> Command:
        request.header(GetConsumerListRequestHeader)
        body = ConsumerList(consumer_id_list=self._clients)
        return request.reply(body=encode_body(body, request.encoding))

    def _pull(self, request: Command) -> Command | None:
        header = request.header(PullMessageRequestHeader)
        begin = header.queue_offset
        if begin >= self._last:
            return None  # held
        end = min(self._last, begin + MOST_PER_PULL)
        found: Header = PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=end, min_offset=0, max_offset=self._last
        )
        return request.reply(found, b"".join(self._pulled[header.queue_id][begin:end]))

    def _send(self, request: Command) -> bytes:
        header = request.header(SendMessageRequestHeaderV2)
        key = decode_properties(header.properties)["UNIQ_KEY"]
        self._stored += 1
        return self._send_reply.frame(
            request.opaque, self._stored * 256, header.queue_id, self._stored, key
        )


class _Transport(asyncio.Transport):
    """What a channel writes to; the peer reads it in the loop's next turn."""

    def __init__(self, network: ScriptedNetwork, channel: Channel, address: str) -> None:
        super().__init__({"peername": _pair(address), "sockname": ("127.0.0.1", 50000)})
        self._network = network
        self._channel = channel
        self._decoder = FrameDecoder()
        self._written: list[bytes] = []
        self._is_closing = False
        self._loop = asyncio.get_running_loop()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._written:
            self._loop.call_soon(self._answer)
        self._written.append(bytes(data))

    def _answer(self) -> None:
        if self._is_closing:
            return
        began_s = time.thread_time()
        written, self._written = self._written, []
        replies = [
            self._network.answer(request) for request in self._decoder.feed(b"".join(written))
        ]
        data = b"".join(replies)
        self._network.used_s += time.thread_time() - began_s
        if data:
            self._channel.data_received(data)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._channel.connection_lost, None)

    abort = close

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


class _SendReply:
    """The answer of a broker to a send, as `broker/sending/send_replies.py` lays it out."""

    def __init__(self) -> None:
        self._start = (
            b"\x87\xa4code\x00\xa8language%c\xa7version\xd2%s\xa4flag\x01\xa6remark\xc0"
            % (LanguageCode.PYTHON, _I32.pack(VERSION_5_3_3))
        )

    def frame(self, opaque: int, position: int, queue_id: int, offset: int, key: str) -> bytes:
        header = b"".join(
            (
                self._start,
                b"\xa6opaque\xd2" + _I32.pack(opaque),
                b"\xa3ext\x86\xaaMSG_REGION\xadDefaultRegion\xa8TRACE_ON\xa4true\xa5msgId\xd9\x20",
                (HOST + _I64.pack(position)).hex().upper().encode(),
                b"\xa7queueId\xd2" + _I32.pack(queue_id),
                b"\xabqueueOffset\xd3" + _I64.pack(offset),
                b"\xadtransactionId\xd9%c" % len(key) + key.encode(),
            )
        )
        size = len(header)
        return _I32.pack(size + 4) + _I32.pack(Encoding.MSGPACK << 24 | size) + header


def _records(topic: str, queue: int, body_bytes: int, count: int) -> list[bytes]:
    return [
        encode_record(
            topic=topic.encode(),
            queue_id=queue,
            flag=0,
            queue_offset=offset,
            physical_offset=(offset * QUEUES + queue) * (body_bytes + 300),
            sys_flag=0,
            born_timestamp_ms=1_763_000_000_000,
            born_host=HOST,
            store_timestamp_ms=1_763_000_000_000,
            store_host=HOST,
            reconsume_times=0,
            prepared_transaction_offset=0,
            body=b"x" * body_bytes,
            properties=b"TAGS\x01TagA\x02WAIT\x01true\x02UNIQ_KEY\x01%032X\x02" % offset,
        )
        for offset in range(count)
    ]


def _pair(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
