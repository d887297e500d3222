"""Marks of messages, and the begin of a first batch, without brokers or stores."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np

from pocketmq.pipeline.progress.checkpoint import BEGIN, Mark, begin_of, with_begin
from pocketmq.pipeline.progress.marks import read_marks, stored_mark
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.stored.record import encode_record

QUEUE = MessageQueue("T", "broker-a", 0)
_HOST = pack_host("127.0.0.1", 10911)


def record(queue_offset: int) -> bytes:
    return encode_record(
        topic=b"T", queue_id=0, flag=0, queue_offset=queue_offset, physical_offset=4_711,
        sys_flag=0, born_timestamp_ms=1, born_host=_HOST, store_timestamp_ms=1_700_000_000_000,
        store_host=_HOST, reconsume_times=0, prepared_transaction_offset=0, body=b"x" * 40,
        properties=b"",
    )  # fmt: skip


class Client:
    """A cluster of one broker that answers with one message."""

    access = SimpleNamespace(timeout_s=3.0)

    def __init__(self, offset: int) -> None:
        self._reply = SimpleNamespace(code=0, body_view=memoryview(record(offset)))

    async def channel(self, _queue: MessageQueue) -> Any:
        async def request(_header: object, *, timeout_s: float) -> Any:
            return self._reply

        return SimpleNamespace(request=request)

    async def each(
        self, queues: Iterable[MessageQueue], of: Callable[[MessageQueue], Awaitable[Any]]
    ) -> dict[MessageQueue, Any]:
        return {queue: await of(queue) for queue in queues}


async def test_a_later_message_is_no_mark_of_one_that_is_gone() -> None:
    there: Any = Client(7)
    mark = Mark(1_700_000_000_000, 4_711)
    assert await read_marks(there, "G", {QUEUE: 7}) == {QUEUE: mark}
    assert await read_marks(there, "G", {QUEUE: 6}) == {}


def test_a_store_has_no_mark_where_its_log_has_another_message() -> None:
    entry = np.array([(4_711, len(record(7)))], [("offset", "i8"), ("size", "i4")])
    files: Any = SimpleNamespace(entries=lambda _begin, _end: entry)
    log: Any = SimpleNamespace(read=lambda _position, size: record(7)[:size])
    assert stored_mark(files, 7, log) == Mark(1_700_000_000_000, 4_711)
    assert stored_mark(files, 6, log) is None


def test_a_first_batch_that_is_repeated_begins_where_it_did() -> None:
    start: dict[str, Any] = {"T": {"broker-a": {"0": 3}}}
    end = with_begin({"T": {"broker-a": {"0": 9}}}, start)
    assert begin_of(end, {}) == start
    repeated = with_begin({"T": {"broker-a": {"0": 9}}}, {**start, BEGIN: {"T": {}}})
    assert repeated == end, "no begin within a begin"
    assert begin_of({"T": {"broker-a": {"0": 12}}}, end) == end
    assert begin_of({"T": {"broker-a": {"0": 12}}}, start) == start
