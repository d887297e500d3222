"""Each way on which a broker writes a message anew, played against ours or RocketMQ's.

`play` sends one message for each way, under a unique key that is the way's name, and has the broker
do the rest. `stories` then reads the log's files: for each way all records of its message, in the
order of the log, with their properties in their order. `tests/golden/rewritten.json` is what
RocketMQ 5.3.3 stored.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec

from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.groups import UpdateSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.replies import SendReplyMessageRequestHeaderV2
from pocketmq.protocol.headers.send import (
    SendBatchMessageRequestHeader,
    SendMessageResponseHeader,
)
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.messages.message import Message, MessageExt
from pocketmq.protocol.messages.properties import encode_properties
from pocketmq.protocol.stored.record import decode_record
from support.broker_rig import Voice, send_header
from support.golden import GOLDEN
from support.pop_voice import pop

REWRITTEN = GOLDEN / "rewritten.json"

LEVELS = "1s 1s 1s 1s 1s"
ROLL_WINDOW_SLOTS = 5
TIMES = {"transactionTimeOut": 60_000, "transactionCheckInterval": 1_000, "transactionCheckMax": 1}
"""Of a broker that `play` is played to, under RocketMQ's names; `messageDelayLevel` is `LEVELS`."""

TOPIC, GROUP = "Rewritten", "rewriters"
RETRY, DEAD = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
HALF, GIVEN_UP = "RMQ_SYS_TRANS_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC"
DELAYED, TIMED = "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer"
REPLIES = "DefaultCluster_REPLY_TOPIC"

_TIMES = (
    "TIMER_OUT_MS",
    "TIMER_ENQUEUE_MS",
    "TIMER_DEQUEUE_MS",
    "TIMER_DELIVER_MS",
    "1ST_POP_TIME",
)
_IDS = ("ORIGIN_MESSAGE_ID",)

BLANK_MAGIC = 0xCBD43194
MOST_PAUSES = 400

Pause = Callable[[], Awaitable[None]]
"""Lets the broker do what is due: for ours the manual clock moves, for the real one time passes."""


class Play:
    """Plays all ways to one broker.

    Args:
        voice: a connection to it.
        pause: from one question to the next, whether something has come.
        now_ms: the broker's time.
        store: the broker's folder, whose log is read.
    """

    def __init__(self, voice: Voice, pause: Pause, now_ms: Callable[[], int], store: Path) -> None:
        self._voice = voice
        self._pause = pause
        self._now_ms = now_ms
        self._store = store

    async def all(self) -> None:
        """Every way, one after the other."""
        await self._voice.create_topic(TOPIC, 2)
        group = SubscriptionGroupConfig(group_name=GROUP)
        await self._ok(UpdateSubscriptionGroupRequestHeader(), group)
        await self._plain()
        await self._levels()
        await self._timers()
        await self._sent_back()
        await self._dead()
        await self._transactions()
        await self._replies()
        await self._batch()
        await self._popped()

    # -- the ways -------------------------------------------------------------------------------

    async def _plain(self) -> None:
        await self._send("plain", v2=False)
        await self._send("plain-v2")
        await self._send("plain-without-end", tail="own\x01last")
        await self._send("request", {"CORRELATION_ID": "7", "REPLY_TO_CLIENT": "me", "TTL": "3000"})

    async def _levels(self) -> None:
        for way, level in (("level", "1"), ("level-plus", "+2"), ("level-too-high", "99")):
            await self._send(way, {"DELAY": level}, queue_id=1)
            await self._until(way, 2)
        await self._send("level-none", {"DELAY": "0"})
        await self._send("level-negative", {"DELAY": "-3"})

    async def _timers(self) -> None:
        for way, name in (
            ("timer-ms", "TIMER_DELAY_MS"),
            ("timer-seconds", "TIMER_DELAY_SEC"),
            ("timer-at", "TIMER_DELIVER_MS"),
        ):
            at = {"TIMER_DELAY_MS": 2_500, "TIMER_DELAY_SEC": 2}.get(name, self._now_ms() + 2_500)
            await self._send(way, {name: str(at)}, queue_id=1)
            await self._until(way, 2)
        await self._send("timer-rolled", {"TIMER_DELAY_MS": "6500"})  # once: the window is 5 s
        await self._until("timer-rolled", 3)
        await self._send("timer-past", {"TIMER_DELIVER_MS": "1000"})
        await self._send("timer-and-level", {"TIMER_DELAY_MS": "2500", "DELAY": "1"})
        await self._until("timer-and-level", 2)

    async def _sent_back(self) -> None:
        for way, sent, levels in (
            ("back", {}, (0, 0)),
            ("back-own-level", {}, (2, 9)),
            ("back-delayed", {"DELAY": "1"}, (0,)),
            ("back-timed", {"TIMER_DELAY_MS": "2500"}, (0,)),
        ):
            await self._send(way, sent)
            count = 2 if sent else 1
            record = (await self._until(way, count))[-1]
            for level in levels:
                await self._back(record, level)
                count += 2
                record = (await self._until(way, count))[-1]

    async def _dead(self) -> None:
        """By the consumer's word, by the limit, after a retry; by a plain send, with delays too."""
        timers = {"TIMER_DELIVER_MS": "1000", "TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "2500"}
        for way, sent, count in (
            ("dead-by-word", {}, 1),
            ("dead-by-limit", {}, 1),
            ("dead-delayed", {"DELAY": "1"}, 2),
            ("dead-timed", {"TIMER_DELAY_MS": "2500"}, 2),
            ("dead-timer-past", {"TIMER_DELIVER_MS": "1000"}, 1),
        ):
            await self._send(way, sent)
            record = (await self._until(way, count))[-1]
            if way == "dead-by-limit":
                await self._back(record, 0, max_reconsume_times=0)
            else:
                await self._back(record, -1)
            await self._until(way, count + 1)
        await self._send("dead-after-retry")
        record = (await self._until("dead-after-retry", 1))[-1]
        await self._back(record, 1)
        record = (await self._until("dead-after-retry", 3))[-1]
        await self._back(record, -1)
        await self._until("dead-after-retry", 4)
        for way, sent, times, count in (
            ("retry-by-send", {"DELAY": "1", "RETRY_TOPIC": TOPIC}, 1, 2),
            ("dead-by-send", {"RETRY_TOPIC": TOPIC}, 99, 1),
            ("dead-by-send-delayed", {"DELAY": "2", "RETRY_TOPIC": TOPIC}, 99, 1),
            ("dead-by-send-past", {"TIMER_DELIVER_MS": "1000"}, 99, 1),
            ("dead-by-send-timed", {"TIMER_DELAY_MS": "2500"}, 99, 2),
            ("dead-by-send-all", {"DELAY": "2", **timers}, 99, 2),
        ):
            await self._send(way, sent, topic=RETRY, reconsume_times=times, max_reconsume_times=3)
            await self._until(way, count)

    async def _transactions(self) -> None:
        """Without delays: RocketMQ delays the half message itself, and drops it then (X-11)."""
        half = {"TRAN_MSG": "true", "PGROUP": "bookers"}
        for way, sent, outcome, count in (
            ("committed", half, 8, 2),
            ("committed-immune", half | {"CHECK_IMMUNITY_TIME_IN_SECONDS": "30"}, 8, 2),
            ("rolled-back", half, 12, 1),
        ):
            await self._send(way, sent, queue_id=1)
            record = (await self._until(way, 1))[-1]
            await self._ok(
                EndTransactionRequestHeader(
                    producer_group="bookers",
                    tran_state_table_offset=record.queue_offset,
                    commit_log_offset=record.commit_log_offset,
                    commit_or_rollback=outcome,
                    msg_id=way,
                    transaction_id=way,
                    topic=TOPIC,
                )
            )
            await self._until(way, count)
        # Old enough to be checked at once, as no half message is whose commit is on its way.
        await self._send("unknown", half, queue_id=1, born_timestamp=self._now_ms() - 100_000)
        await self._until("unknown", 3)

    async def _replies(self) -> None:
        header = send_header(
            REPLIES, properties=_properties("reply", {"REPLY_TO_CLIENT": "gone"}), v2=True
        )
        values = {name: getattr(header, name) for name in header.__struct_fields__}
        await self._voice.ask(SendReplyMessageRequestHeaderV2(**values), b"reply")  # nobody's
        await self._until("reply", 1)

    async def _batch(self) -> None:
        messages = [
            Message(TOPIC, b"batch", keys="k", tags="b", properties={"own": str(n)}) for n in (1, 2)
        ]
        for n, message in enumerate(messages):
            message.properties["UNIQ_KEY"] = f"batch-{n}"  # type: ignore[index]
        header = send_header(
            TOPIC, properties={"WAIT": "true"}, batch=True, born_timestamp=self._now_ms()
        )
        values = {name: getattr(header, name) for name in header.__struct_fields__}
        await self._ok(SendBatchMessageRequestHeader(**values), encode_batch(messages))
        await self._until("batch-1", 1)

    async def _popped(self) -> None:
        for way, sent, count in (("popped", {}, 1), ("popped-delayed", {"DELAY": "1"}, 2)):
            topic = f"{TOPIC}-{way}"
            await self._voice.create_topic(topic, 2)
            await self._send(way, sent, topic=topic, queue_id=1)
            await self._until(way, count)
            answer = await pop(
                self._voice, topic, consumer_group=GROUP, invisible_time=1_000, init_mode=0
            )
            assert answer.bodies == [way.encode()], answer
            await self._until(way, count + (2 if sent else 1))  # by pops' kept DELAY (K-92)

    # -- its parts ------------------------------------------------------------------------------

    async def _send(
        self, way: str, more: dict[str, str] | None = None, *, tail: str = "", **fields: Any
    ) -> SendMessageResponseHeader:
        text = _properties(way, more or {}) + tail
        topic = fields.pop("topic", TOPIC)
        fields = {"flag": 5, "born_timestamp": self._now_ms()} | fields
        reply = await self._voice.try_send(topic, way.encode(), properties=text, **fields)
        assert reply.code == ResponseCode.SUCCESS, (way, reply.code, reply.remark)
        return reply.header(SendMessageResponseHeader)

    async def _back(self, record: MessageExt, level: int, **fields: Any) -> None:
        reply = await self._voice.send_back(record, group=GROUP, delay_level=level, **fields)
        assert reply.code == ResponseCode.SUCCESS, (record.properties, reply.remark)

    async def _ok(self, header: Header, body: bytes | msgspec.Struct = b"") -> Command:
        reply = await self._voice.ask(header, body)
        assert reply.code == ResponseCode.SUCCESS, (header, reply.remark)
        return reply

    async def _until(self, way: str, count: int) -> list[MessageExt]:
        """The records of a way, as soon as there are so many."""
        for _ in range(MOST_PAUSES):
            found = [each for each in records(self._store) if each.uniq_key == way]
            if len(found) >= count:
                return found
            await self._pause()
        raise AssertionError(f"{way}: {len(found)} records, not {count}: {found}")


def _properties(way: str, more: dict[str, str]) -> str:
    """What a client sends, in an order that no hash has."""
    return encode_properties(
        {"UNIQ_KEY": way, "WAIT": "false", "zebra": "z", **more, "TAGS": "t", "KEYS": "k1 k2",
         "apple": "a"}
    )  # fmt: skip


# -- what was stored ----------------------------------------------------------------------------


def records(store: Path) -> list[MessageExt]:
    """All records of a log, in order, whoever wrote it."""
    found = []
    for path in sorted((store / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while at + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, at)
            if size <= 0 or magic == BLANK_MAGIC:
                break
            found.append(decode_record(data, at))
            at += size
    return found


def stories(store: Path, broker_addr: str) -> dict[str, list[dict[str, Any]]]:
    """What became of each way's message: all its records, without what is new each time."""
    told: dict[str, list[dict[str, Any]]] = {}
    for record in records(store):
        way = record.uniq_key or ""
        if way[:1].islower():  # the broker's own and generated ones are upper case
            told.setdefault(way, []).append(_told(record, broker_addr))
    return told


def _told(record: MessageExt, broker_addr: str) -> dict[str, Any]:
    text = bytes(record.raw_properties).decode()
    return {
        "topic": record.topic,
        "queueId": record.queue_id,
        "flag": record.flag,
        "sysFlag": record.sys_flag,
        "reconsumeTimes": record.reconsume_times,
        "bornHost": "broker" if record.born_host == broker_addr else "client",
        "storeHost": "broker" if record.store_host == broker_addr else "other",
        "prepared": "an offset" if record.prepared_transaction_offset else 0,
        "body": bytes(record.raw_body).decode(),
        "properties": [_entry(entry) for entry in text.split("\x02")],
    }


def _entry(entry: str) -> str:
    """`name=value`; a property's end is an empty entry, so a missing one is seen."""
    name, _, value = entry.partition("\x01")
    if name in _TIMES and value != "1000":
        return f"{name}=<time>"
    if name in _IDS:
        return f"{name}=<id>"
    return f"{name}={value}" if entry else ""
