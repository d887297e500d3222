"""Pulling a range from a broker that answers as it likes: every message once, or a clear error."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.pipeline.columns.arrow import Shape
from pocketmq.pipeline.errors import BrokerAwayError, DataLossError
from pocketmq.pipeline.options import schema
from pocketmq.pipeline.options.row_filter import RowFilter
from pocketmq.pipeline.topics.patience import Patience
from pocketmq.pipeline.topics.pull_range import DEPTH, PullOptions, RangePull
from pocketmq.pipeline.topics.wire_read import PARTS_AHEAD, PullPart, WireRead, in_turn
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BodyError, BrokerError, ConnectionLostError
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.stored.record import decode_records
from pocketmq.runtime.clock import SystemClock
from support.strategies import RecordFields

QUEUE = MessageQueue("T", "a", 0)


@dataclass
class FakeBroker:
    """Answers pulls of one queue; stands for the client and its channel as well."""

    low: int = 0
    high: int = 100
    limit: Callable[[int], int] = lambda _offset: 32
    """How many messages a reply to a pull from this offset has."""
    tagged: frozenset[int] | None = None
    """Offsets that the subscription selects."""
    faults: list[Exception | int | None] = field(default_factory=list)
    """What each request is answered with at first; None is an answer as usual."""
    asked: list[tuple[int, int]] = field(default_factory=list)
    reply_sizes: dict[MessageQueue, int] = field(default_factory=dict)
    address: str = "127.0.0.1:10911"
    is_open: bool = True
    clock: SystemClock = field(default_factory=SystemClock)

    async def channel(self, _queue: MessageQueue, **_: Any) -> FakeBroker:
        return self

    async def leads_to_master(self, _queue: MessageQueue, channel: object) -> bool:
        return channel is self

    def forget_route(self, _topic: str) -> None:
        """Its address stays the same."""

    def request(
        self, header: PullMessageRequestHeader, *, timeout_s: float
    ) -> asyncio.Future[Command]:
        return asyncio.ensure_future(self.answered(header))

    async def answered(self, header: PullMessageRequestHeader) -> Command:
        await self.clock.sleep(0)
        self.asked.append((header.queue_offset, header.max_msg_nums))
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, int):
                return Command(fault, remark="refused")
            if fault is not None:
                raise fault
        return self.answer(header.queue_offset, header.max_msg_nums)

    def answer(self, offset: int, count: int) -> Command:
        if offset < self.low:
            return self._reply(ResponseCode.PULL_OFFSET_MOVED, self.low)
        if offset >= self.high:
            moved = offset > self.high
            code = ResponseCode.PULL_OFFSET_MOVED if moved else ResponseCode.PULL_NOT_FOUND
            return self._reply(code, self.high)
        count = max(1, min(count, self.limit(offset)))
        if self.tagged is None:
            offsets = list(range(offset, min(offset + count, self.high)))
            return self._reply(ResponseCode.SUCCESS, offsets[-1] + 1, offsets)
        chosen = [each for each in range(offset, self.high) if each in self.tagged][:count]
        if not chosen:
            return self._reply(ResponseCode.PULL_RETRY_IMMEDIATELY, self.high)
        return self._reply(ResponseCode.SUCCESS, chosen[-1] + 1, chosen)

    def _reply(self, code: int, next_offset: int, offsets: Sequence[int] = ()) -> Command:
        header = PullMessageResponseHeader(
            suggest_which_broker_id=0,
            next_begin_offset=next_offset,
            min_offset=self.low,
            max_offset=self.high,
        )
        records = [RecordFields(queue_offset=each, body=b"x" * (each % 9)) for each in offsets]
        body = b"".join(record.encode() for record in records)
        return Command(code, header, body, remark="")


@dataclass
class MasterAway:
    """A client while a broker's master is away; it is back after `away` looks for it."""

    master: FakeBroker
    slave: FakeBroker
    away: int
    reply_sizes: dict[MessageQueue, int] = field(default_factory=dict)
    clock: SystemClock = field(default_factory=SystemClock)

    async def channel(self, _queue: MessageQueue, *, slaves: bool) -> FakeBroker:
        assert slaves
        return self.slave if self.away > 0 else self.master

    async def leads_to_master(self, _queue: MessageQueue, channel: object) -> bool:
        self.away -= 1
        return channel is self.master

    def forget_route(self, _topic: str) -> None:
        """It looks at none."""


class Slave(FakeBroker):
    """Answers as RocketMQ's slave does where an offset is not stored there (`offsetCheckInSlave`
    is off)."""

    def answer(self, offset: int, count: int) -> Command:
        found = super().answer(offset, count)
        if found.code == ResponseCode.PULL_OFFSET_MOVED:
            return self._reply(
                ResponseCode.PULL_RETRY_IMMEDIATELY, self.low if offset < self.low else self.high
            )
        return found


async def pulled(
    broker: FakeBroker | MasterAway, start: int, end: int, **options: Any
) -> tuple[list[int], RangePull]:
    """Offsets in the order in which they came."""
    given = {"group": "g", "patience": Patience(5, 0.0), **options}
    pull = RangePull(broker, QUEUE, start, end, PullOptions(**given))  # type: ignore[arg-type]
    found: list[int] = []
    async for replies in pull.replies():
        for reply in replies:
            came = [message.queue_offset for message in decode_records(bytes(reply.records))]
            assert came[0] == reply.low
            found += [offset for offset in came if offset < reply.high]
    return found, pull


@given(
    start=st.integers(0, 60),
    size=st.integers(0, 300),
    batch=st.integers(1, 64),
    limits=st.lists(st.integers(1, 40), min_size=1, max_size=7),
)
def test_each_message_comes_once_and_in_order_however_short_the_replies(
    start: int, size: int, batch: int, limits: list[int]
) -> None:
    broker = FakeBroker(high=400, limit=lambda offset: limits[offset % len(limits)])
    found, _ = asyncio.run(pulled(broker, start, start + size, batch=batch))
    assert found == list(range(start, start + size))


@given(st.frozensets(st.integers(0, 199)), st.integers(0, 150), st.integers(0, 100))
def test_with_tags_the_chosen_messages_come_and_none_beyond_the_end(
    tagged: frozenset[int], start: int, size: int
) -> None:
    broker = FakeBroker(high=200, tagged=tagged)
    end = min(start + size, 200)
    found, _ = asyncio.run(pulled(broker, start, end, expression="TagA"))
    assert found == sorted(each for each in tagged if start <= each < end)


async def test_requests_follow_the_brokers_own_limit() -> None:
    broker = FakeBroker(high=10_000)
    found, _ = await pulled(broker, 0, 10_000, batch=256)
    assert len(found) == 10_000
    assert len(broker.asked) < 2 * 10_000 / 32


async def test_several_requests_are_under_way() -> None:
    running = most = 0

    class Counting(FakeBroker):
        async def answered(self, header: PullMessageRequestHeader) -> Command:
            nonlocal running, most
            running += 1
            most = max(most, running)
            try:
                return await super().answered(header)
            finally:
                running -= 1

    await pulled(Counting(high=1000), 0, 1000, batch=32)
    assert most == DEPTH


async def test_a_lost_connection_is_tried_again() -> None:
    broker = FakeBroker(faults=[ConnectionLostError("a"), ConnectionLostError("a")])
    found, _ = await pulled(broker, 0, 100)
    assert found == list(range(100))


async def test_requests_under_way_on_a_connection_that_is_lost_are_repeated_and_counted() -> None:
    lost = ConnectionLostError("a")
    broker = FakeBroker(faults=[None, None, lost, lost, lost], high=400)
    found, pull = await pulled(broker, 0, 400, batch=32)
    assert found == list(range(400))
    assert pull.repeated == 3
    assert pull.requests + pull.repeated == len(broker.asked)


async def test_a_refusal_in_the_middle_is_not_repeated() -> None:
    broker = FakeBroker(faults=[None, None, ResponseCode.NO_PERMISSION])
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        await pulled(broker, 0, 100, batch=8)


async def test_a_broker_that_stays_away_is_an_error() -> None:
    broker = FakeBroker(faults=[ConnectionLostError("a")] * 50)
    with pytest.raises(ConnectionLostError):
        await pulled(broker, 0, 100, patience=Patience(2, 0.0))


async def test_a_refusal_is_not_repeated() -> None:
    broker = FakeBroker(faults=[ResponseCode.NO_PERMISSION])
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        await pulled(broker, 0, 10)


async def test_removed_messages_are_named_with_queue_and_offsets() -> None:
    says = r"queueId=0.*offsets 10 to 29 \(20 messages\).*now begins at 30"
    with pytest.raises(DataLossError, match=says) as caught:
        await pulled(FakeBroker(low=30), 10, 60)
    assert (caught.value.wanted, caught.value.found) == (10, 30)


async def test_removed_messages_are_counted_when_that_is_wanted() -> None:
    found, pull = await pulled(FakeBroker(low=30), 10, 60, batch=8, fail_on_data_loss=False)
    assert found == list(range(30, 60))
    assert pull.lost == 20


async def test_a_queue_that_ends_early_is_named_or_counted() -> None:
    with pytest.raises(DataLossError, match="the queue now ends at 50"):
        await pulled(FakeBroker(high=50), 0, 80)
    found, pull = await pulled(FakeBroker(high=50), 0, 80, fail_on_data_loss=False)
    assert found == list(range(50))
    assert pull.lost == 30


LAGGING = (
    {"high": 50},  # it ends too early
    {"low": 20},  # it began later than its master
    {"high": 0},
    {"high": 50, "tagged": frozenset(range(0, 80, 3))},
    {"low": 20, "tagged": frozenset(range(0, 80, 3))},
)


@pytest.mark.parametrize(
    "stored", LAGGING, ids=["short", "late", "empty", "short-tags", "late-tags"]
)
@pytest.mark.parametrize("kind", [FakeBroker, Slave])
@pytest.mark.parametrize("fails", [True, False])
async def test_what_a_slave_lacks_is_no_loss_but_waited_for_until_its_master_is_back(
    stored: dict[str, Any], kind: type[FakeBroker], fails: bool
) -> None:
    tagged = stored.get("tagged")
    broker = MasterAway(FakeBroker(high=80, tagged=tagged), kind(**stored), away=3)
    options = {"expression": "TagA"} if tagged else {}
    found, pull = await pulled(broker, 0, 80, fail_on_data_loss=fails, **options)
    assert found == (sorted(tagged) if tagged else list(range(80)))
    assert pull.lost == 0
    assert pull.requests + pull.repeated == len(broker.master.asked + broker.slave.asked)


@pytest.mark.parametrize("kind", [FakeBroker, Slave])
@pytest.mark.parametrize("fails", [True, False])
async def test_a_master_that_stays_away_is_said_to_be_and_nothing_to_be_lost(
    kind: type[FakeBroker], fails: bool
) -> None:
    broker = MasterAway(FakeBroker(high=80), kind(high=50), away=100)
    says = (
        r"queueId=0.*the master of a does not answer. Offsets 50 to .* its slave has only 0 to 49"
    )
    with pytest.raises(BrokerAwayError, match=says):
        await pulled(broker, 0, 80, fail_on_data_loss=fails)


async def test_what_the_master_that_came_back_lacks_is_lost() -> None:
    says = "the queue now ends at 60"
    with pytest.raises(DataLossError, match=says):
        await pulled(MasterAway(FakeBroker(high=60), FakeBroker(high=50), away=2), 0, 80)


async def test_a_slave_that_has_all_is_read_without_a_look_for_its_master() -> None:
    broker = MasterAway(FakeBroker(), FakeBroker(), away=1)
    found, _ = await pulled(broker, 0, 100)
    assert found == list(range(100))
    assert broker.away == 1


async def test_a_gap_inside_the_queue_is_a_loss() -> None:
    class Gap(FakeBroker):
        def answer(self, offset: int, count: int) -> Command:
            return super().answer(max(offset, 20) if offset >= 10 else offset, count)

    broker = Gap(limit=lambda _: 10)
    with pytest.raises(DataLossError, match="offsets 10 to 19"):
        await pulled(broker, 0, 60, batch=60)
    found, pull = await pulled(Gap(limit=lambda _: 10), 0, 60, batch=60, fail_on_data_loss=False)
    assert found == [*range(10), *range(20, 60)]
    assert pull.lost == 10


class Holes(FakeBroker):
    """Answers without some messages, as a broker whose log has lost them."""

    def _reply(self, code: int, next_offset: int, offsets: Sequence[int] = ()) -> Command:
        kept = [offset for offset in offsets if offset % 50 not in (20, 21)]
        return super()._reply(code, next_offset, kept)


def rows_of(broker: FakeBroker, end: int, **options: Any) -> tuple[list[int], WireRead]:
    """Offsets of the rows that a task makes of a queue."""
    read = reading(broker, "queueOffset", **options)
    batches = list(read.batches(PullPart(QUEUE, 0, end)))
    return [offset for batch in batches for offset in batch.column(0).to_pylist()], read


def reading(
    broker: FakeBroker, column: str, *, max_body_bytes: int = 4096, **options: Any
) -> WireRead:
    pull = PullOptions("g", patience=Patience(5, 0.0), **options)
    shape = Shape({column: schema.MESSAGE[column]}, max_body_bytes)
    return WireRead(FakeAccess(broker), pull, shape, RowFilter.of_tags([]), 16_384)  # type: ignore[arg-type]


@dataclass
class FakeAccess:
    """Leads to a broker that is no process."""

    broker: FakeBroker

    def client(self) -> FakeBroker:
        return self.broker


def test_a_task_has_every_row_once_whatever_the_replies_lie_in() -> None:
    found, read = rows_of(FakeBroker(high=500, limit=lambda offset: offset % 7 + 1), 500)
    assert found == list(range(500))
    assert read.lost == 0


def test_the_error_for_a_body_that_is_too_large_names_the_option_for_it() -> None:
    class Packed(FakeBroker):
        def _reply(self, code: int, next_offset: int, offsets: Sequence[int] = ()) -> Command:
            found = super()._reply(code, next_offset)
            packed = zlib.compress(b"x" * 2_000)
            flag = MessageSysFlag.COMPRESSED
            records = [
                RecordFields(queue_offset=each, body=packed, sys_flag=flag) for each in offsets
            ]
            found.body = b"".join(record.encode() for record in records)
            return found

    read = reading(Packed(high=3), "body", max_body_bytes=1_000)
    says = r"offset 0: its body has \d+ bytes and more than 1000 when .* raise option maxBodyBytes"
    with pytest.raises(BodyError, match=says) as caught:
        list(read.batches(PullPart(QUEUE, 0, 3)))
    assert "max_body_bytes" not in str(caught.value)


def test_a_gap_in_the_middle_of_a_reply_is_a_loss() -> None:
    with pytest.raises(DataLossError, match=r"offsets 20 to 21 \(2 messages\)"):
        rows_of(Holes(high=200), 200)
    found, read = rows_of(Holes(high=200), 200, fail_on_data_loss=False)
    assert found == [offset for offset in range(200) if offset % 50 not in (20, 21)]
    assert read.lost == 8


def test_with_tags_what_lies_behind_the_end_is_no_row() -> None:
    broker = FakeBroker(high=200, tagged=frozenset(range(0, 200, 3)))
    found, read = rows_of(broker, 100, expression="TagA")
    assert found == list(range(0, 100, 3))
    assert read.lost == 0


def test_a_task_pulls_small_queues_at_a_time_and_has_their_rows_one_after_the_other() -> None:
    queues = [MessageQueue("T", "a", number) for number in range(12)]
    running: set[int] = set()
    together: list[int] = []

    class Watched(FakeBroker):
        async def answered(self, header: PullMessageRequestHeader) -> Command:
            running.add(header.queue_id)
            together.append(len(running))
            for _ in range(5):
                await self.clock.sleep(0)
            running.discard(header.queue_id)
            return await super().answered(header)

    broker = Watched()
    parts = [PullPart(queue, 10 * queue.queue_id % 60, 90) for queue in queues]
    reads = [(reading(broker, "queueOffset"), part) for part in parts]
    found = [each for batch in in_turn(reads, 16_384) for each in batch.column(0).to_pylist()]
    assert found == [offset for part in parts for offset in range(part.start, 90)]
    assert max(together) == PARTS_AHEAD
    together.clear()
    assert len(list(in_turn(reads, 1))) == len(parts)
    assert max(together) == 1


async def test_the_next_range_of_a_queue_asks_for_what_replies_have_and_no_more() -> None:
    broker = FakeBroker(high=1000)
    await pulled(broker, 0, 500, batch=256)
    broker.asked.clear()
    found, _ = await pulled(broker, 500, 1000, batch=256)
    assert found == list(range(500, 1000))
    assert sorted(broker.asked) == [(low, min(32, 1000 - low)) for low in range(500, 1000, 32)]
