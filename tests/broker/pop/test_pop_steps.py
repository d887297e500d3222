"""What a pop and a notification do with what was found, step by step; around them all only note."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.filters.message_filters import MessageFilter
from pocketmq.broker.pop.pop_processor import (
    NotificationProcessor,
    PopExpressions,
    PopProcessor,
)
from pocketmq.broker.pop.pop_reads import ALL, PopRequest
from pocketmq.broker.pop.taken_points import HandOut
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import FLAG_ONEWAY, Command
from pocketmq.protocol.headers.pop import (
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PopMessageRequestHeader,
)
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.signals import Signal

NOW_MS = 1_000_000
BORN_MS = NOW_MS + 10_000
"""By a client whose clock is ahead: its requests have time to wait."""
FILTER = MessageFilter()
QUEUES = 4


class Peer:
    """Only its identity counts."""

    address = "127.0.0.1:1"

    def keep(self, _size_bytes: int) -> None:
        """What waits is counted as its memory."""


class Around:
    """Pops and notifications in the middle of what they use."""

    def __init__(self, *, expressions: bool = True, filters_notices: bool = True) -> None:
        self.done: list[str] = []
        self.out = HandOut(pop_time_ms=NOW_MS, revive_queue_id=1)
        self.has_message = False
        self.refused: ResponseCode | None = None
        self.wanted: list[PopRequest] = []
        self.peeked: list[list[int]] = []
        note = self.done.append
        meters = SimpleNamespace(
            popped_out=lambda _topic, _group, count, size, retry: note(
                f"{count} of {size} bytes{' again' if retry else ''}"
            )
        )
        stats = SimpleNamespace(meters=meters, note_get=self._note_get)
        signals = SimpleNamespace(
            message_arrived=Signal(), topic_deleted=Signal(), channel_closed=Signal()
        )
        core: Any = SimpleNamespace(
            clock=ManualClock(NOW_MS), stats=stats, signals=signals,
            profile=SimpleNamespace(broker=SimpleNamespace(pops_can_be_suspended=expressions)),
            config=SimpleNamespace(use_message_filter_for_notification=filters_notices),
        )  # fmt: skip
        checks: Any = SimpleNamespace(pop=self._check, read=self._check)
        popper: Any = SimpleNamespace(
            take=self._take, has_message=self._has_message, peek=self._peek
        )
        points: Any = SimpleNamespace(store=self._store)
        filters: Any = SimpleNamespace(
            parse=lambda *_: note("parse"), of=lambda _subscription, allowed: FILTER
        )
        parsed = PopExpressions(filters)
        self.pops = PopProcessor(core, checks, popper, points, parsed)
        self.notices = NotificationProcessor(core, checks, popper, parsed)
        self.pops.waiting.wake = self._wake  # type: ignore[method-assign,assignment]
        self.peer: Any = Peer()

    def _note_get(self, _topic: str, _group: str, count: int, *_: object) -> None:
        self.done.append(f"got {count}")

    def _check(self, *_: object) -> Any:
        if self.refused is not None:
            raise RequestRefusedError(self.refused, "no")
        return SimpleNamespace(read_queue_nums=QUEUES)

    def _take(self, want: PopRequest, _queues: int, _now_ms: int) -> HandOut:
        self.wanted.append(want)
        return self.out

    def _has_message(self, want: PopRequest, _queues: int, _now_ms: int) -> bool:
        self.wanted.append(want)
        return self.has_message

    def _peek(self, _group: str, _topic: str, queues: Sequence[int], _most: int) -> HandOut:
        self.peeked.append(list(queues))
        return self.out

    def _store(self, outs: Sequence[HandOut]) -> list[HandOut]:
        self.done.append(f"store {len(outs)}")
        return list(outs)

    def _wake(self, _topic: str, _group: str, queue_id: int | None) -> None:
        self.done.append(f"wake {queue_id}")

    def find(self, count: int, size: int = 10, **more: Any) -> None:
        """The next pop finds so much."""
        self.out = HandOut(
            pop_time_ms=NOW_MS, revive_queue_id=1, count=count, size_bytes=size, **more
        )

    def pop(
        self, *, queue_id: int = -1, poll_ms: int = 0, flag: int = 0, expression: str | None = None
    ) -> Command | None:
        header = PopMessageRequestHeader(
            consumer_group="g", topic="t", queue_id=queue_id, max_msg_nums=8,
            invisible_time=60_000, poll_time=poll_ms, born_time=BORN_MS, exp=expression,
        )  # fmt: skip
        [reply] = self.pops.pop([self.peer], [Command(0, header, flag=flag)])
        return reply  # type: ignore[return-value]

    def ask(
        self, *, queue_id: int = -1, poll_ms: int = 0, flag: int = 0, expression: str | None = None
    ) -> Command | None:
        """A notification."""
        header = NotificationRequestHeader(
            consumer_group="g", topic="t", queue_id=queue_id, poll_time=poll_ms,
            born_time=BORN_MS, exp=expression,
        )  # fmt: skip
        return self.notices.notification(self.peer, Command(0, header, flag=flag))  # type: ignore[return-value]


def code_of(reply: Command | None) -> int | None:
    """None for a request that waits."""
    return None if reply is None else reply.code


async def test_what_is_found_is_stored_then_counted_and_then_the_next_one_is_woken() -> None:
    around = Around()
    around.find(3, 30, retried=1, retried_bytes=4, rest=5)
    assert code_of(around.pop(queue_id=2)) == 0
    assert around.done == ["store 1", "got 3", "1 of 4 bytes again", "2 of 26 bytes", "wake 2"]
    for retried, counted in ((0, "1 of 10 bytes"), (1, "1 of 10 bytes again")):
        around.done.clear()
        around.find(1, 10, retried=retried, retried_bytes=10 * retried, rest=0)
        around.pop()
        assert around.done == ["store 1", "got 1", counted], "there is nothing more to wake for"


async def test_pops_of_one_turn_are_stored_together_and_one_that_is_refused_is_not() -> None:
    around = Around()
    around.find(1)
    header = PopMessageRequestHeader(
        consumer_group="g", topic="t", queue_id=-1, max_msg_nums=8, invisible_time=60_000,
        poll_time=0,
    )  # fmt: skip
    requests = [Command(0, header) for _ in range(2)]
    assert all(code_of(each) == 0 for each in around.pops.pop([around.peer] * 2, requests))  # type: ignore[arg-type]
    assert around.done[0] == "store 2"
    around.done.clear()
    around.refused = ResponseCode.NO_PERMISSION
    assert code_of(around.pop()) == ResponseCode.NO_PERMISSION
    assert around.done == ["store 0"]


@pytest.mark.parametrize("kind", ["pop", "notification"])
@pytest.mark.parametrize(
    ("poll_ms", "flag", "waits"), [(0, 0, False), (1, 0, True), (1, FLAG_ONEWAY, False)]
)
async def test_who_finds_nothing_waits_if_it_may(
    kind: str, poll_ms: int, flag: int, *, waits: bool
) -> None:
    around = Around()
    ask = around.pop if kind == "pop" else around.ask
    expected = None if waits else ResponseCode.POLLING_TIMEOUT if kind == "pop" else 0
    assert code_of(ask(poll_ms=poll_ms, flag=flag)) == expected
    table = around.pops.waiting.table if kind == "pop" else around.notices.waiting.table
    assert len(table) == waits


@pytest.mark.parametrize("kind", ["pop", "notification"])
async def test_who_waits_for_any_queue_waits_under_one_key(kind: str) -> None:
    around = Around()
    ask = around.pop if kind == "pop" else around.ask
    table = around.pops.waiting.table if kind == "pop" else around.notices.waiting.table
    for queue_id in (-7, -1, 0, 2):
        assert ask(queue_id=queue_id, poll_ms=1000) is None
    assert [table.count(("t", "g", queue_id)) for queue_id in (-7, -1, 0, 2)] == [0, 2, 1, 1]


async def test_a_pop_whose_filter_has_used_up_its_bytes_asks_again_at_once() -> None:
    around = Around()
    around.out = HandOut(pop_time_ms=NOW_MS, revive_queue_id=1, filter_bytes_left=0)
    assert code_of(around.pop(poll_ms=1000)) == ResponseCode.POLLING_TIMEOUT
    assert len(around.pops.waiting.table) == 0
    around.out = HandOut(pop_time_ms=NOW_MS, revive_queue_id=1, filter_bytes_left=1)
    assert code_of(around.pop(poll_ms=1000)) is None


async def test_a_pop_that_waited_takes_what_has_come_and_one_refused_by_then_is_told() -> None:
    around = Around()
    for _ in range(2):
        around.pop(poll_ms=1000)
    around.find(1)
    waiting = around.pops.waiting.table.due(BORN_MS + 1000)
    around.done.clear()
    first: Any = around.pops._again(waiting[0])
    assert first.code == 0
    assert around.done == ["store 1", "got 1", "1 of 10 bytes"]
    around.done.clear()
    around.refused = ResponseCode.TOPIC_NOT_EXIST
    second: Any = around.pops._again(waiting[1])
    assert (second.code, around.done) == (ResponseCode.TOPIC_NOT_EXIST, [])


async def test_a_peek_looks_into_one_queue_or_all() -> None:
    around = Around()
    for queue_id in (-1, 0, 3):
        header = PeekMessageRequestHeader(
            consumer_group="g", topic="t", queue_id=queue_id, max_msg_nums=8
        )
        none: Any = around.pops.peek(around.peer, Command(0, header))
        assert none.code == ResponseCode.PULL_NOT_FOUND
    assert around.peeked == [[0, 1, 2, 3], [0], [3]]
    around.find(1)
    some: Any = around.pops.peek(around.peer, Command(0, header))
    assert some.code == 0


async def test_an_expression_is_parsed_where_there_is_one() -> None:  # K-31
    around = Around()
    around.pop()
    around.pop(expression="")
    around.pop(expression="a")
    assert [want.filter for want in around.wanted] == [ALL, ALL, FILTER]
    assert around.done.count("parse") == 1


@pytest.mark.parametrize(
    ("knows", "filters", "chosen"),
    [(True, True, FILTER), (True, False, ALL), (False, True, ALL)],
)
async def test_a_notification_has_an_expression_from_5_5_on(
    knows: bool, filters: bool, chosen: MessageFilter
) -> None:  # K-66
    around = Around(expressions=knows, filters_notices=filters)
    around.has_message = True
    reply = around.ask(expression="a", poll_ms=1000)
    assert reply is not None
    assert reply.header(NotificationResponseHeader).has_msg
    assert around.wanted[0].filter is chosen
    assert len(around.notices.waiting.table) == 0
