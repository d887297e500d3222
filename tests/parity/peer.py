"""A name server and brokers that answer by a script and write down what they were asked.

Real sockets, one process, frames by `wire.py`: no line of `pocketmq` takes part in what is asked.
`World` is the script, and pure: a request in, its answer out.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from parity.asked import HELD, Asked
from parity.catalogue import catalogue
from parity.wire import Answer, decode, frame_of
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.stored.record import encode_record
from pocketmq.runtime.clock import SystemClock

SUCCESS, BUSY, NO_TOPIC, PULL_OFFSET_MOVED, OFFSET_NOT_FOUND = 0, 2, 17, 21, 22
NAMESERVER = "nameserver"
NOTIFY_CONSUMER_IDS_CHANGED = 40
ANY_BROKER = {"GET_CONSUMER_LIST_BY_GROUP", "QUERY_ASSIGNMENT"}
"""A client draws which of a topic's brokers it asks."""
RETRY_PREFIX = "%RETRY%"
REVIVE_QUEUE = "3"
"""The queue of the revive topic that every pop is told to have its check point in."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, not on the wire yet."""

    code: int = SUCCESS
    ext: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str | None = None


@dataclass
class World:
    """What the script answers from.

    Attributes:
        addresses: broker name -> `host:port` that routes name.
        topics: topic -> broker name -> number of queues.
        committed: offsets that groups have: (topic, queue) -> offset; others have none.
        members: client ids in the order of their first heartbeat.
        refusals: for a code, the response codes that its next requests get instead.
        stored: records by (broker, topic, queue).
        popped: the offset after the last record that was popped, by the same.
    """

    addresses: dict[str, str] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    committed: dict[tuple[str, int], int] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    refusals: dict[str, list[int]] = field(default_factory=dict)
    stored: dict[tuple[str, str, int], list[bytes]] = field(default_factory=dict)
    popped: dict[tuple[str, str, int], int] = field(default_factory=dict)

    def answer(self, target: str, asked: Answer) -> Reply | None:
        """What a request gets; None: it is held."""
        name = catalogue().names.get(asked.code, "")
        if waiting := self.refusals.get(name):
            return Reply(waiting.pop(0), remark="[scripted] not now")
        answer = getattr(self, f"_{name.lower()}", None)
        return answer(target, asked) if answer is not None else Reply()

    def put(self, broker: str, topic: str, queue: int, body: bytes, tries: int = 0) -> None:
        """Store a message."""
        records = self.stored.setdefault((broker, topic, queue), [])
        records.append(
            encode_record(
                topic=topic.encode(), queue_id=queue, flag=0, queue_offset=len(records),
                physical_offset=1000 * len(records), sys_flag=0, born_timestamp_ms=1,
                born_host=pack_host("127.0.0.1", 1), store_timestamp_ms=2,
                store_host=pack_host("127.0.0.1", 2), reconsume_times=tries,
                prepared_transaction_offset=0, body=body,
                properties=b"UNIQ_KEY\x01" + b"%032X" % len(records) + b"\x02",
            )
        )  # fmt: skip

    def _get_routeinfo_by_topic(self, _target: str, asked: Answer) -> Reply:
        brokers = self.topics.get(asked.ext["topic"])
        if brokers is None:
            return Reply(NO_TOPIC, remark="no such topic")
        route = {
            "brokerDatas": [
                {
                    "brokerAddrs": {"0": self.addresses[name]}, "brokerName": name,
                    "cluster": "scripted", "enableActingMaster": False,
                }
                for name in brokers
            ],
            "filterServerTable": {},
            "queueDatas": [
                {
                    "brokerName": name, "perm": 6, "readQueueNums": queues, "topicSysFlag": 0,
                    "writeQueueNums": queues,
                }
                for name, queues in brokers.items()
            ],
        }  # fmt: skip
        return Reply(body=json.dumps(route).encode())

    def _heart_beat(self, _target: str, asked: Answer) -> Reply:
        client = json.loads(asked.body)["clientID"]
        if client not in self.members:
            self.members.append(client)
        return Reply()

    def _get_consumer_list_by_group(self, _target: str, _asked: Answer) -> Reply:
        return Reply(body=json.dumps({"consumerIdList": self.members}).encode())

    def _query_consumer_offset(self, _target: str, asked: Answer) -> Reply:
        offset = self.committed.get((asked.ext["topic"], int(asked.ext["queueId"])))
        if offset is None:
            return Reply(OFFSET_NOT_FOUND, remark="no offset")
        return Reply(ext={"offset": str(offset)})

    def _get_max_offset(self, target: str, asked: Answer) -> Reply:
        return Reply(ext={"offset": str(len(self._queue(target, asked)))})

    def _get_min_offset(self, _target: str, _asked: Answer) -> Reply:
        return Reply(ext={"offset": "0"})

    def _search_offset_by_timestamp(self, _target: str, _asked: Answer) -> Reply:
        return Reply(ext={"offset": "0"})

    def _pull_message(self, target: str, asked: Answer) -> Reply | None:
        records, at = self._queue(target, asked), int(asked.ext["queueOffset"])
        most, found = len(records), records[at : at + int(asked.ext["maxMsgNums"])]
        ext = {
            "suggestWhichBrokerId": "0", "nextBeginOffset": str(at + len(found)), "minOffset": "0",
            "maxOffset": str(most),
        }  # fmt: skip
        return Reply(SUCCESS, ext, b"".join(found)) if found else None

    _lite_pull_message = _pull_message

    def _query_assignment(self, _target: str, asked: Answer) -> Reply:
        told = json.loads(asked.body)
        topic, group = told["topic"], told["consumerGroup"]
        # As a broker: groups whose mode was not set pop, but for their retry topic; a queue id of
        # -1 stands for all queues of a broker.
        mode = "PULL" if topic == RETRY_PREFIX + group else "POP"
        queues = [
            {"brokerName": broker, "queueId": queue, "topic": topic}
            for broker, count in self.topics.get(topic, {}).items()
            for queue in (range(count) if mode == "PULL" else [-1])
        ]
        rows = [{"attachments": {}, "messageQueue": queue, "mode": mode} for queue in queues]
        return Reply(body=json.dumps({"messageQueueAssignments": rows}).encode())

    def _pop_message(self, target: str, asked: Answer) -> Reply | None:
        topic, queue = asked.ext["topic"], int(asked.ext["queueId"])
        queues = range(self.topics[topic][target]) if queue < 0 else [queue]
        starts, offsets, found = [], [], []
        for each in queues:
            key = target, topic, each
            begin, records = self.popped.get(key, 0), self.stored.get(key, [])
            if taken := records[begin : begin + int(asked.ext["maxMsgNums"])]:
                end = self.popped[key] = begin + len(taken)
                starts.append(f"0 {each} {begin}")
                offsets.append(f"0 {each} " + ",".join(str(at) for at in range(begin, end)))
                found += taken
        ext = {
            "popTime": str(SystemClock().time_ms()), "invisibleTime": asked.ext["invisibleTime"],
            "reviveQid": REVIVE_QUEUE, "restNum": "0", "startOffsetInfo": ";".join(starts),
            "msgOffsetInfo": ";".join(offsets),
        }  # fmt: skip
        return Reply(SUCCESS, ext, b"".join(found)) if found else None

    def _change_message_invisibletime(self, _target: str, asked: Answer) -> Reply:
        ext = {"popTime": str(SystemClock().time_ms()), "reviveQid": REVIVE_QUEUE}
        return Reply(ext={**ext, "invisibleTime": asked.ext["invisibleTime"]})

    def _queue(self, target: str, asked: Answer) -> list[bytes]:
        return self.stored.get((target, asked.ext["topic"], int(asked.ext["queueId"])), [])

    def _lock_batch_mq(self, _target: str, asked: Answer) -> Reply:
        return Reply(body=json.dumps({"lockOKMQSet": json.loads(asked.body)["mqSet"]}).encode())

    def _send_message(self, target: str, asked: Answer) -> Reply:
        queue = asked.ext.get("queueId") or asked.ext.get("e") or "0"
        ext = {"msgId": "7F00000100002A9F0000000000000000", "queueId": queue, "queueOffset": "0"}
        return Reply(ext=ext)

    _send_message_v2 = _send_batch_message = _send_message


class Peer:
    """One world on real ports.

    Attributes:
        world: the script.
        asked: every request, in the order of their coming.
        changed: set at each request; who waits clears it.
    """

    def __init__(self, brokers: tuple[str, ...]) -> None:
        self.world = World()
        self.asked: list[Asked] = []
        self.changed = asyncio.Event()
        self._brokers = brokers
        self._opaque = itertools.count(1)
        self._numbers: dict[str, Iterator[int]] = {}
        self._servers: list[asyncio.Server] = []
        self._open: dict[asyncio.StreamWriter, str] = {}
        self._held: list[tuple[asyncio.StreamWriter, str, Answer]] = []
        self.nameserver = ""

    async def start(self) -> None:
        """Listen for all roles."""
        self.nameserver = await self._listen(NAMESERVER)
        for name in self._brokers:
            self.world.addresses[name] = await self._listen(name)

    async def move(self, broker: str) -> None:
        """Give a broker another port, close its connections, and let routes say so."""
        self.world.addresses[broker] = await self._listen(broker)
        self.close(broker)

    def close(self, target: str) -> None:
        """End all connections to one role."""
        for writer, name in list(self._open.items()):
            if name == target:
                self._held = [each for each in self._held if each[0] is not writer]
                writer.close()

    async def stop(self) -> None:
        """End everything."""
        for server in self._servers:
            server.close()
        for writer in list(self._open):
            writer.close()

    def put(self, broker: str, topic: str, queue: int, body: bytes) -> None:
        """Store a message, and answer the pulls and pops that wait for it."""
        self.world.put(broker, topic, queue, body)
        held, self._held = self._held, []
        for writer, target, request in held:
            reply = self.world.answer(target, request)
            if reply is None:
                self._held.append((writer, target, request))
            else:
                self._write(writer, request, reply)

    def holds(self, broker: str) -> bool:
        """Whether a request waits at the broker for something to answer it with."""
        return any(target == broker for _, target, _ in self._held)

    def release(self, code: int, remark: str = "", *, next_offset: int | None = None) -> None:
        """Answer all held pulls and pops with a code."""
        held, self._held = self._held, []
        for writer, _, request in held:
            at = request.ext.get("queueOffset", "0") if next_offset is None else str(next_offset)
            if next_offset is not None:
                self.world.committed[request.ext["topic"], int(request.ext["queueId"])] = (
                    next_offset
                )
            ext = {
                "suggestWhichBrokerId": "0", "nextBeginOffset": at, "minOffset": "0",
                "maxOffset": at,
            }  # fmt: skip
            self._write(writer, request, Reply(code, ext, remark=remark or None))

    def notify(self, broker: str, group: str) -> None:
        """Tell the broker's clients that the group has changed."""
        frame = frame_of(
            NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group}, b"", next(self._opaque), flag=2
        )
        for writer, name in self._open.items():
            if name == broker:
                writer.write(frame)

    async def _listen(self, target: str) -> str:
        self._numbers.setdefault(target, itertools.count(1))

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._open[writer] = target
            try:
                with suppress(asyncio.IncompleteReadError, ConnectionError):
                    await self._serve(target, reader, writer)
            finally:
                self._open.pop(writer, None)
                self._held = [each for each in self._held if each[0] is not writer]
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _serve(
        self, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        number = 0
        while True:
            head = await reader.readexactly(4)
            frame = head + await reader.readexactly(*struct.unpack(">i", head))
            request = decode(frame)
            if request.flag & 1:
                continue  # the answer to a request of ours
            number = number or next(self._numbers[target])
            oneway = bool(request.flag & 2)
            reply = self.world.answer(target, request)
            answered = None if oneway else HELD if reply is None else reply.code
            asked = Asked(
                request.code, request.ext, request.body, request.flag, request.version,
                request.language, target, number, answered,
            )  # fmt: skip
            if asked.name in ANY_BROKER and len(self._brokers) > 1:
                asked = replace(asked, target="a drawn broker")
            self.asked.append(asked)
            self.changed.set()
            if oneway:
                continue
            if reply is None:
                self._held.append((writer, target, request))
            else:
                self._write(writer, request, reply)

    def _write(self, writer: asyncio.StreamWriter, request: Answer, reply: Reply) -> None:
        writer.write(
            frame_of(reply.code, reply.ext, reply.body, request.opaque, flag=1, remark=reply.remark)
        )


Condition = Callable[[list[Asked]], bool]
"""Whether what a phase is about has been asked."""


def asked(code: str, times: int = 1, **fields: str) -> Condition:
    """A code was asked so often, with these header fields."""

    def holds(phase: list[Asked]) -> bool:
        mine = [
            each
            for each in phase
            if each.name == code and all(each.ext.get(k) == v for k, v in fields.items())
        ]
        return len(mine) >= times

    return holds
