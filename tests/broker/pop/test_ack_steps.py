"""What an ack and a change of the invisible time do, step by step; around them all only note."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.pop.ack_processor import AckProcessor
from pocketmq.broker.pop.merge import Held
from pocketmq.broker.pop.orders import ILLEGAL
from pocketmq.broker.pop.records import Ack, CheckPoint
from pocketmq.broker.store import PutResult, PutStatus
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.messages import MessageAcknowledged
from pocketmq.operation.events.sink import Place
from pocketmq.protocol.bodies.pop import BatchAck, BatchAckBody, ack_bits
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.pop import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
)
from pocketmq.protocol.messages.receipts import ORDERED_QUEUE
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.simulation.event_recorder import EventRecorder

NOW_MS = 1_000_000
POPPED_MS, INVISIBLE_MS, REVIVE_QUEUES = 990_000, 60_000, 4
LOW, HIGH = 3, 9
MOST_S = 100


class Peer:
    """Notes its answers."""

    address = "127.0.0.1:1"

    def __init__(self) -> None:
        self.heard: list[Command] = []

    def reply(self, _request: Command, answer: Command) -> None:
        self.heard.append(answer)

    def reply_all(self, _requests: Sequence[Command], answers: Sequence[Command]) -> None:
        self.heard += answers


class Around:
    """An `AckProcessor` in the middle of what it uses."""

    def __init__(self, events: Any = None) -> None:
        self.done: list[str] = []
        self.status = PutStatus.PUT_OK
        self.flushed: list[Callable[[PutStatus], None]] = []
        self.held: Held | None = None
        """A check point that is only in memory."""
        self.knows_group = True
        self.next_offset, self.is_blocked = -1, False
        self.peer, self.offsets = Peer(), ConsumerOffsetManager()
        self.told: list[Event] = []
        recorder = EventRecorder(self.told.append, lambda: 0)
        events = events or recorder.sink("broker-a", lambda: NOW_MS)
        note = self.done.append
        store: Any = SimpleNamespace(
            reads=SimpleNamespace(min_offset=lambda *_: LOW, max_offset=lambda *_: HIGH),
            config=SimpleNamespace(timer_max_delay_sec=MOST_S),
            put_messages=self._put,
            when_flushed=self._when_flushed,
        )
        stats = SimpleNamespace(
            note_acks=lambda _topic, _group, count: note(f"count {count} acks"),
            note_check_points=lambda *_: note("count a check point"),
        )
        core: Any = SimpleNamespace(
            store=store, clock=ManualClock(NOW_MS), stats=stats, events=events,
            budget=Budget, config=SimpleNamespace(name="broker-a"),
            profile=SimpleNamespace(broker=SimpleNamespace(pops_can_be_suspended=True)),
        )  # fmt: skip
        checks: Any = SimpleNamespace(
            queue=lambda *_: None, offset=lambda *_, end_passes: None,
            knows=lambda _group: self.knows_group,
        )  # fmt: skip
        log: Any = SimpleNamespace(
            queues=REVIVE_QUEUES,
            ack=lambda ack, queue, due: f"ack {_offsets(ack)} in {queue} at {due}",
            check_point=lambda point, queue: f"check point {point.pop_time_ms} in {queue}",
        )
        progress: Any = SimpleNamespace(
            returned=lambda _queue, _popped, count=1: note(f"returned {count}")
        )
        orders: Any = SimpleNamespace(
            acknowledge=lambda *_: self.next_offset, is_blocked=lambda *_: self.is_blocked,
            make_visible_at=lambda _key, offset, _popped, at: note(f"visible {offset} at {at}"),
        )  # fmt: skip
        waiting: Any = SimpleNamespace(wake=lambda *_: note(f"wake {self.committed}"))
        self.merge: Any = _Merge(self)
        merges: Any = SimpleNamespace(
            merge=self.merge,
            records=lambda held: [f"check point {held.point.pop_time_ms}"],
            follow=lambda _queue: note("follow"),
            when_safe=lambda held, end: note(f"{len(held)} safe at {end}"),
        )
        self.acks = AckProcessor(core, checks, log, self.offsets, progress, orders, waiting, merges)

    @property
    def committed(self) -> int | None:
        return self.offsets.query("g", "t", 0)

    def _put(self, messages: Sequence[object]) -> list[PutResult]:
        self.done.append("put " + ", ".join(map(str, messages)))
        return [PutResult(self.status, at, 100 * at, 7) for at in range(1, len(messages) + 1)]

    def _when_flushed(self, end: int, call: Callable[[PutStatus], None]) -> None:
        self.done.append(f"flushed {end}?")
        self.flushed.append(call)

    def hold(self, offsets: range) -> CheckPoint:
        """A pop's check point is only in memory."""
        point = CheckPoint.of_pop(("g", "t", 0, "broker-a"), offsets, POPPED_MS, INVISIBLE_MS)
        self.held = Held(point, 1, offsets.stop, POPPED_MS)
        return point

    def ack(self, *offsets: int, revive: int = 1) -> list[Command | None]:
        """Acks of one turn."""
        requests = [
            Command(
                0,
                AckMessageRequestHeader(
                    consumer_group="g", topic="t", queue_id=0, offset=offset,
                    extra_info=receipt(offset, revive),
                ),
            )
            for offset in offsets
        ]  # fmt: skip
        peers: Any = [self.peer] * len(requests)
        return list(self.acks.ack(peers, requests))  # type: ignore[arg-type]

    def batch(self, *offsets: int, revive: int = 1, start: int = LOW) -> Command | None:
        """One batch of acks."""
        each = BatchAck(
            consumer_group="g", topic="t", retry="0", start_offset=start, queue_id=0,
            revive_queue_id=revive, pop_time=POPPED_MS, invisible_time=INVISIBLE_MS,
            bits=ack_bits(offset - start for offset in offsets),
        )  # fmt: skip
        body = BatchAckBody(broker_name="broker-a", acks=[each] if offsets else [])
        peer: Any = self.peer
        request = Command(0, None, msgspec.msgpack.encode(body))
        [reply] = self.acks.batch_ack([peer], [request])
        return reply  # type: ignore[return-value]

    def change(self, offset: int, revive: int = 1, after_ms: int = 5_000) -> Command | None:
        """A message is wanted later."""
        header = ChangeInvisibleTimeRequestHeader(
            consumer_group="g", topic="t", queue_id=0, offset=offset,
            extra_info=receipt(offset, revive), invisible_time=after_ms,
        )  # fmt: skip
        peer: Any = self.peer
        return self.acks.change_invisible_time(peer, Command(0, header))  # type: ignore[return-value]


class _Merge:
    """Check points in memory: at most one."""

    def __init__(self, around: Around) -> None:
        self._around = around

    def __len__(self) -> int:
        return 1 if self._around.held else 0

    def acknowledge(self, _key: object, offsets: Sequence[int], _now_ms: int) -> Held | None:
        held = self._around.held
        for offset in offsets if held else ():
            assert held is not None
            held.point.acknowledge(offset)
        return held

    def take(self, _key: object) -> Held | None:
        held, self._around.held = self._around.held, None
        return held

    def keep(self, held: Held) -> None:
        self._around.held = held
        self._around.done.append("kept in memory")


def _offsets(ack: Ack) -> object:
    return ack.offsets if ack.offset < 0 else ack.offset


def receipt(offset: int, revive: int, start: int = LOW, popped_ms: int = POPPED_MS) -> str:
    return f"{start} {popped_ms} {INVISIBLE_MS} {revive} 0 broker-a 0 {offset}"


DUE_MS = POPPED_MS + INVISIBLE_MS


async def test_acks_of_one_turn_are_one_append_and_answered_when_it_is_flushed() -> None:
    around = Around()
    assert around.ack(3, 4) == [None, None]
    each = ["count 1 acks", "returned 1"]
    put = f"put ack 3 in 1 at {DUE_MS}, ack 4 in 1 at {DUE_MS}"
    assert around.done == [*each, *each, put, "flushed 207?"]
    assert around.peer.heard == []
    around.flushed.pop()(PutStatus.PUT_OK)
    assert [answer.code for answer in around.peer.heard] == [0, 0]
    told = [event.offset for event in around.told if isinstance(event, MessageAcknowledged)]
    assert told == [3, 4]


async def test_acks_that_nobody_watches_are_not_told_and_too_many_are_counted() -> None:
    [unwatched] = Around(SimpleNamespace(is_on=False)).ack(3)
    assert unwatched is None
    counted: list[Place] = []
    sink = SimpleNamespace(
        is_on=True, wants=lambda _kind, _number: False,
        count=lambda _kind, place: counted.append(place),
    )  # fmt: skip
    [answer] = Around(sink).ack(3)
    assert answer is None
    assert counted == [Place("t", 0, "broker-a", "g")]


async def test_acks_that_are_not_stored_or_not_flushed_are_refused() -> None:
    around = Around()
    around.ack(3)
    around.flushed.pop()(PutStatus.FLUSH_DISK_TIMEOUT)
    around.status = PutStatus.OS_PAGE_CACHE_BUSY
    around.ack(3)
    assert [answer.code for answer in around.peer.heard] == [ResponseCode.SYSTEM_ERROR] * 2
    assert around.flushed == [], "it is answered once"


@pytest.mark.parametrize(("revive", "is_one"), [(0, True), (3, True), (4, False)])
async def test_a_revive_queue_that_the_broker_has_not_is_refused(
    revive: int, *, is_one: bool
) -> None:
    around = Around()
    [single] = around.ack(3, revive=revive)
    batch = around.batch(3, revive=revive)
    assert (single is None, batch is None) == (is_one, is_one)
    if is_one:
        around.change(3, revive)
        return
    assert single is not None
    assert batch is not None
    assert (single.code, batch.code) == (ResponseCode.MESSAGE_ILLEGAL,) * 2
    with pytest.raises(RequestRefusedError):
        around.change(3, revive)


async def test_an_ack_of_a_group_that_is_unknown_or_heard_by_nobody_is_not_counted() -> None:
    around = Around()
    around.knows_group = False
    around.ack(3)
    around.change(3)
    assert not [step for step in around.done if step.startswith("count")]


async def test_an_ack_whose_check_point_is_in_memory_is_stored_nowhere() -> None:  # K-101, K-102
    around = Around()
    around.hold(range(3, 5))
    [first] = around.ack(3)
    assert first is not None
    assert first.code == 0
    assert around.done == ["count 1 acks", "returned 1"]
    assert around.batch(4) is not None
    assert around.done[2:] == ["count 1 acks", "returned 1", "follow"]


async def test_a_batch_is_one_record_of_the_offsets_that_the_queue_has() -> None:  # K-53
    around = Around()
    assert around.batch(3, 5, 9) is None
    assert around.done == [
        "count 3 acks", "returned 3", f"put ack [3, 5, 9] in 1 at {DUE_MS}", "flushed 107?"
    ]  # fmt: skip
    for start, offsets, kept in (
        (2, (2, 3), [3]), (3, (9, 10), [9]), (2, (2, 9, 10), [9]), (3, (3,), [3]), (9, (9,), [9]),
    ):  # fmt: skip
        around.done.clear()
        assert around.batch(*offsets, start=start) is None
        assert around.done[-2] == f"put ack {kept} in 1 at {DUE_MS}"
    around.done.clear()
    outside = around.batch(2, start=2)
    assert outside is not None
    assert (outside.code, around.done) == (0, [])
    none = around.batch()
    assert none is not None
    assert none.code == ResponseCode.NO_MESSAGE


async def test_an_ack_in_order_commits_before_who_waits_is_woken() -> None:  # K-113
    around = Around()
    around.next_offset = 4
    for answer in (around.ack(3, revive=ORDERED_QUEUE)[0], around.batch(3, revive=ORDERED_QUEUE)):
        assert answer is not None
        assert answer.code == 0
    # The second one is of the past: it moves nothing and wakes nobody.
    assert around.done == ["count 1 acks", "wake 4", "count 1 acks"]
    around.next_offset, around.is_blocked = 5, True
    around.done.clear()
    around.ack(4, revive=ORDERED_QUEUE)
    assert (around.committed, around.done) == (5, ["count 1 acks"])


@pytest.mark.parametrize(("next_offset", "committed"), [(-1, None), (0, 0)])
async def test_an_ack_in_order_commits_what_the_order_says(
    next_offset: int, committed: int | None
) -> None:
    around = Around()
    around.next_offset = next_offset
    around.ack(0, revive=ORDERED_QUEUE)
    assert around.committed == committed


async def test_an_ack_in_order_leaves_a_reset_as_it_is_and_one_of_no_pop_is_refused() -> None:
    around = Around()
    around.next_offset = 4
    around.offsets.assign_reset("g", "t", 0, 1)
    around.ack(3, revive=ORDERED_QUEUE)
    assert around.committed == 1  # B-59
    around.next_offset = ILLEGAL
    [answer] = around.ack(3, revive=ORDERED_QUEUE)
    assert answer is not None
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_change_stores_the_new_check_point_and_the_ack_of_the_old_one() -> None:  # K-55
    around = Around()
    assert around.change(4) is None
    assert around.done == [
        "count 1 acks", "count a check point",
        f"put check point {NOW_MS} in 1, ack 4 in 1 at {DUE_MS}", "flushed 207?",
    ]  # fmt: skip
    around.flushed.pop()(PutStatus.PUT_OK)
    [answer] = around.peer.heard
    told = answer.header(ChangeInvisibleTimeResponseHeader)
    assert (told.pop_time, told.invisible_time, told.revive_qid) == (NOW_MS, 5_000, 1)


async def test_a_change_takes_its_check_point_out_of_memory_unless_it_is_not_stored() -> None:
    around = Around()
    around.hold(range(3, 5))
    held = around.held
    around.change(4)
    assert around.done[2:] == [
        f"put check point {POPPED_MS}, check point {NOW_MS} in 1, ack 4 in 1 at {DUE_MS}",
        "1 safe at 307", "flushed 307?",
    ]  # fmt: skip
    assert around.held is None
    around.held, around.status = held, PutStatus.OS_PAGE_CACHE_BUSY
    around.change(4)
    assert around.done[-1] == "kept in memory"
    assert around.held is held


async def test_a_change_at_the_very_time_of_the_pop_makes_another_check_point() -> None:  # K-74
    around = Around()
    header = ChangeInvisibleTimeRequestHeader(
        consumer_group="g", topic="t", queue_id=0, offset=4,
        extra_info=receipt(4, 1, start=4, popped_ms=NOW_MS), invisible_time=5_000,
    )  # fmt: skip
    peer: Any = around.peer
    around.acks.change_invisible_time(peer, Command(0, header))
    assert around.done[-2].startswith(f"put check point {NOW_MS + 1} in 1, ")


async def test_a_message_can_be_invisible_for_so_long_and_no_longer() -> None:  # K-39
    around = Around()
    assert around.change(4, after_ms=MOST_S * 1000) is None
    refused = around.change(4, after_ms=MOST_S * 1000 + 1)
    assert refused is not None
    assert refused.code == ResponseCode.INVALID_PARAMETER


async def test_a_change_in_order_is_noted_and_one_of_the_past_is_not() -> None:  # K-56
    around = Around()
    answer = around.change(4, ORDERED_QUEUE)
    assert answer is not None
    told = answer.header(ChangeInvisibleTimeResponseHeader)
    assert (told.pop_time, told.invisible_time) == (POPPED_MS, NOW_MS + 5_000 - POPPED_MS)
    assert around.done == [f"visible 4 at {NOW_MS + 5_000}"]
    around.offsets.commit("g", "t", 0, 4, NOW_MS)
    around.change(4, ORDERED_QUEUE)
    assert len(around.done) == 2, "4 is the next one"
    around.offsets.commit("g", "t", 0, 5, NOW_MS)
    past = around.change(4, ORDERED_QUEUE)
    assert past is not None
    assert past.header(ChangeInvisibleTimeResponseHeader).pop_time == 0
    assert len(around.done) == 2
