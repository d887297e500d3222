"""The thin edge: a sequence asked of both brokers over real sockets, step by step."""

from __future__ import annotations

import asyncio
import itertools
import struct
from contextlib import suppress
from dataclasses import dataclass, field, replace

from parity.brokers import Side, Sides
from parity.catalogue import catalogue
from parity.compare import Difference, differences, tree_of
from parity.rules import Pair
from parity.steps import CLOSE, WAIT, Filling, Step
from parity.wire import VERSION_5_3_3, Answer, decode, encode
from pocketmq.runtime.clock import SystemClock

ANSWER_S = 8.0
"""RocketMQ looks at held pulls every 5 s, and on a loaded machine a round takes its time."""
SETTLE_TRIES = 400
SETTLE_S = 0.02
RETRIES_S = (0.1, 0.4, 1.5)
"""A reader that answers otherwise is asked again: RocketMQ does some of its work beside."""

READERS = frozenset({
    "GET_TOPIC_CONFIG", "GET_SUBSCRIPTIONGROUP_CONFIG", "GET_MAX_OFFSET", "GET_MIN_OFFSET",
    "QUERY_CONSUMER_OFFSET", "GET_CONSUME_STATS", "GET_TOPIC_STATS_INFO", "GET_ALL_TOPIC_CONFIG",
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "GET_ALL_CONSUMER_OFFSET", "QUERY_MESSAGE",
    "SEARCH_OFFSET_BY_TIMESTAMP", "QUERY_TOPIC_CONSUME_BY_WHO", "QUERY_TOPICS_BY_CONSUMER",
    "QUERY_SUBSCRIPTION_BY_CONSUMER", "GET_CONSUMER_CONNECTION_LIST", "GET_CONSUMER_LIST_BY_GROUP",
    "GET_PRODUCER_CONNECTION_LIST", "QUERY_CONSUME_QUEUE", "GET_EARLIEST_MSG_STORETIME",
    "QUERY_CONSUME_TIME_SPAN", "POLLING_INFO", "GET_ALL_PRODUCER_INFO",
    "GET_ROUTEINFO_BY_TOPIC", "GET_BROKER_CLUSTER_INFO", "GET_BROKER_MEMBER_GROUP",
    "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", "GET_TOPICS_BY_CLUSTER", "GET_SYSTEM_TOPIC_LIST_FROM_NS",
    "GET_UNIT_TOPIC_LIST", "GET_HAS_UNIT_SUB_TOPIC_LIST", "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST",
    "GET_KV_CONFIG", "GET_KVLIST_BY_NAMESPACE", "QUERY_DATA_VERSION", "GET_NAMESRV_CONFIG",
    "CONTROLLER_GET_REPLICA_INFO", "CONTROLLER_GET_METADATA_INFO", "CONTROLLER_GET_SYNC_STATE_DATA",
    "CONTROLLER_GET_NEXT_BROKER_ID", "GET_CONTROLLER_CONFIG",
})  # fmt: skip
"""Asking them once more changes nothing."""

WRITERS = frozenset({
    "SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "CONSUMER_SEND_MSG_BACK",
    "END_TRANSACTION", "ACK_MESSAGE", "BATCH_ACK_MESSAGE", "CHANGE_MESSAGE_INVISIBLETIME",
    "POP_MESSAGE", "RECALL_MESSAGE", "SEND_REPLY_MESSAGE", "SEND_REPLY_MESSAGE_V2", "PULL_MESSAGE",
    "DELETE_TOPIC_IN_BROKER", "UNREGISTER_BROKER", WAIT,
})  # fmt: skip
"""After these RocketMQ's queues are filled beside: wait until they are."""

LATE_S = 20.0
"""More time for one of the two, where the other has answered."""

GET_MAX_OFFSET = 30
GET_BROKER_MEMBER_GROUP = 901


class Line:
    """One client's connection to one broker."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._opaque = itertools.count(1)
        self._last = 0
        self._head = b""
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(
        self,
        code: int,
        fields: dict[str, str],
        body: bytes = b"",
        encoding: str = "json",
        oneway: bool = False,
        version: int = VERSION_5_3_3,
    ) -> Answer:
        """Send a request and wait for its answer."""
        if self._writer is None:
            host, _, port = self._address.rpartition(":")
            self._reader, self._writer = await asyncio.open_connection(host, int(port))
        self._last = opaque = next(self._opaque)
        frame = encode(code, fields, body, opaque, encoding, 2 if oneway else 0, version)
        try:
            self._writer.write(frame)
            if oneway:
                await self._writer.drain()
                return Answer("silent")
        except ConnectionError:
            await self.close()
            return Answer("closed")
        return await self.answer_within(ANSWER_S)

    async def answer_within(self, seconds: float) -> Answer:
        """The answer to the last request; may be asked again where it was silent."""
        try:
            async with asyncio.timeout(seconds):
                return await self._answer_to(self._last)
        except TimeoutError:
            return Answer("silent")
        except (ConnectionError, asyncio.IncompleteReadError):
            await self.close()
            return Answer("closed")

    async def _answer_to(self, opaque: int) -> Answer:
        while self._reader is not None:
            # Kept in the object: the wait may end between the two reads, and go on later.
            self._head = self._head or await self._reader.readexactly(4)
            rest = await self._reader.readexactly(*struct.unpack(">i", self._head))
            answer = decode(self._head + rest)
            self._head = b""
            if answer.flag & 1 and answer.opaque == opaque:
                return answer
            # A request of the broker, which nobody compares yet.
        return Answer("closed")

    async def close(self) -> None:
        """End the connection; the next request opens another."""
        if self._writer is not None:
            self._writer.close()
            with suppress(ConnectionError):
                await self._writer.wait_closed()
        self._reader = self._writer = None
        self._head = b""


@dataclass
class Asker:
    """One pair's clients at one broker."""

    side: Side
    filling: Filling
    clock: SystemClock
    lines: list[Line] = field(init=False)
    control: Line = field(init=False)

    def __post_init__(self) -> None:
        """Connections are opened at their first request."""
        self.lines = [Line(self.side.broker), Line(self.side.broker)]
        self.control = Line(self.side.broker)

    async def ask(self, step: Step) -> Answer:
        """Ask one step; a writer's effects are there when this returns."""
        code = catalogue().codes[step.code]
        fields, body = self.filling.fields(step), self.filling.body(step)
        line = self.lines[step.connection]
        answer = await line.ask(code, fields, body, step.encoding, step.oneway, step.version)
        return self._noted(step, answer)

    async def wait_more(self, step: Step) -> Answer:
        """The answer to a step that was silent, if there comes one."""
        return self._noted(step, await self.lines[step.connection].answer_within(LATE_S))

    def _noted(self, step: Step, answer: Answer) -> Answer:
        if step.label:
            self.filling.answers[step.label] = answer
        return answer

    async def settle(self, step: Step, answer: Answer | None) -> None:
        """Wait until what a step wrote can be read: its queue, or 20 ms for what has none."""
        if step.code == "UNREGISTER_BROKER":
            await self._until_gone(self.filling.fields(step))
            return
        if answer is None or "queueOffset" not in answer.ext:
            await self.clock.sleep(SETTLE_S)
            return
        fields = self.filling.fields(step)
        wanted = int(answer.ext["queueOffset"]) + 1
        ask = {"topic": fields.get("topic", fields.get("b", "")), "queueId": answer.ext["queueId"]}
        for _ in range(SETTLE_TRIES):
            seen = await self.control.ask(GET_MAX_OFFSET, {**ask, "committed": "true"})
            if int(seen.ext.get("offset", wanted)) >= wanted:
                return
            await self.clock.sleep(SETTLE_S / 10)

    async def _until_gone(self, fields: dict[str, str]) -> None:
        """RocketMQ's nameserver lets brokers go beside, and answers before."""
        ask = {name: fields.get(name, "") for name in ("clusterName", "brokerName")}
        address = fields.get("brokerAddr", "")
        for _ in range(SETTLE_TRIES // 4):
            seen = await self.control.ask(GET_BROKER_MEMBER_GROUP, ask)
            if f'"{address}"'.encode() not in seen.body:
                return
            await self.clock.sleep(SETTLE_S / 4)

    async def close(self) -> None:
        """Close all its connections."""
        for line in (*self.lines, self.control):
            await line.close()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a pair showed.

    Attributes:
        found: every difference, explained ones too.
        answered: (code, response code of RocketMQ) pairs that were met.
        suffix: what the names of the pair ended in.
    """

    found: tuple[Difference, ...]
    answered: frozenset[tuple[str, int]]
    suffix: str = ""


class Runner:
    """Runs sequences on both brokers, several side by side."""

    def __init__(self, sides: Sides, first_suffix: int = 0) -> None:
        self.sides = sides
        self.clock = SystemClock()
        self._numbers = itertools.count(first_suffix)
        self._lasting: dict[tuple[str, str], int] = {}

    async def run(self, steps: list[Step], state: list[Step] | None = None) -> Outcome:
        """Ask a sequence, then the state, under fresh names."""
        suffix = f"{next(self._numbers):x}z"
        began = self.clock.time_ms()
        askers = [
            Asker(side, Filling(suffix, began), self.clock)
            for side in (self.sides.ours, self.sides.theirs)
        ]
        found: list[Difference] = []
        answered = set()
        try:
            for number, step in enumerate([*steps, *(state or [])]):
                last: tuple[Answer, Answer] | None = None
                if step.code == WAIT:
                    await self.clock.sleep(int(step.fields["ms"]) / 1000)
                    await self._until_alike(askers)
                elif step.code == CLOSE:
                    for each in askers:
                        await each.lines[step.connection].close()
                elif all(each.filling.lacks(step) for each in askers):
                    continue  # nothing was popped that could be acknowledged
                else:
                    new, last = await self._both(askers, step, number, suffix, began)
                    found += new
                    answered.add((step.code, last[1].code))
                if step.code in WRITERS:
                    answers = last or (None, None)
                    await asyncio.gather(
                        *(each.settle(step, a) for each, a in zip(askers, answers, strict=True))
                    )
        finally:
            for each in askers:
                await each.close()
        return Outcome(tuple(found), frozenset(answered), suffix)

    async def _until_alike(self, askers: list[Asker]) -> None:
        """Wait until what was delayed has arrived at both: a loaded broker is late."""
        ask = {"topic": askers[0].filling.text("{t0}"), "queueId": "0", "committed": "true"}
        for _ in range(SETTLE_TRIES // 4):
            told = await asyncio.gather(*(a.control.ask(GET_MAX_OFFSET, ask) for a in askers))
            if len({each.ext.get("offset") for each in told}) == 1:
                return
            await self.clock.sleep(SETTLE_S * 5)

    async def _both(
        self, askers: list[Asker], step: Step, number: int, suffix: str, began: int
    ) -> tuple[list[Difference], tuple[Answer, Answer]]:
        pauses = RETRIES_S if is_reader(step) else ()
        for pause_s in (*pauses, None):
            for asker in askers:
                asker.filling.clock_ms = self.clock.time_ms()
            ours, theirs = await asyncio.gather(*(each.ask(step) for each in askers))
            if ours.end != theirs.end:  # or one of them is slow, since the machine is
                ours, theirs = [
                    await asker.wait_more(step) if answer.end == "silent" else answer
                    for asker, answer in zip(askers, (ours, theirs), strict=True)
                ]
            pair = Pair(suffix, began, self.clock.time_ms())
            found = differences(step.code, number, tree_of(ours, step), tree_of(theirs, step), pair)
            if pause_s is None or all(self._lasting.get(each.kind, 0) > 2 for each in found):
                break
            await self.clock.sleep(pause_s)
        note = f"{ours.remark!r} | {theirs.remark!r}"
        found = [replace(each, note=note) for each in found]
        for each in found:
            self._lasting[each.kind] = self._lasting.get(each.kind, 0) + 1
        return found, (ours, theirs)


def is_reader(step: Step) -> bool:
    """Whether asking once more changes nothing: a pull that commits nothing and is not held too."""
    if step.code in ("PULL_MESSAGE", "LITE_PULL_MESSAGE"):
        flag = step.fields.get("sysFlag", "")
        return flag.isdigit() and not int(flag) & 3
    return step.code in READERS
