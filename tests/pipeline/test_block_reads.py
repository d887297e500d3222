"""Replies read into blocks, and the records found in them: the same as when read one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.pipeline.columns.record_columns import positions_in
from pocketmq.pipeline.columns.record_places import places_in
from pocketmq.pipeline.topics.block_reads import BLOCK_BYTES, BlockReader
from pocketmq.protocol.command import FLAG_RESPONSE, Command
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.transport.channel import Channel
from support.strategies import RecordFields

MB = 1024 * 1024
PULL = PullMessageRequestHeader(
    consumer_group="g",
    topic="T",
    queue_id=0,
    queue_offset=0,
    max_msg_nums=32,
    sys_flag=4,
    subscription="*",
)


class FakeTransport(asyncio.Transport):
    """A connection whose other side never reads."""

    closed = False

    def write(self, data: Any) -> None: ...

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def reader_and_answers(
    count: int,
) -> tuple[BlockReader, FakeTransport, list[asyncio.Future[Command]]]:
    """A connection with requests under way, whose opaques are 0, 1, 2, ..."""
    channel = Channel(Dispatcher())
    reader, transport = BlockReader(channel), FakeTransport()
    reader.connection_made(transport)
    return reader, transport, [channel.request(PULL) for _ in range(count)]


def feed(reader: BlockReader, data: bytes, cuts: list[int]) -> None:
    """Have the kernel write these bytes, in reads of these lengths in turn."""
    at = turn = 0
    while at < len(data):
        room = reader.get_buffer(-1)
        size = min(len(room), cuts[turn % len(cuts)], len(data) - at)
        room[:size] = data[at : at + size]
        reader.buffer_updated(size)
        at += size
        turn += 1


def decipher(reader: BlockReader, data: bytes, cuts: list[int]) -> None:
    """Have TLS hand over these bytes, in parts of these lengths in turn."""
    at = turn = 0
    while at < len(data):
        part = data[at : at + cuts[turn % len(cuts)]]
        reader.data_received(part)
        at += len(part)
        turn += 1


def frames(bodies: list[bytes]) -> bytes:
    return b"".join(
        bytes(part)
        for opaque, body in enumerate(bodies)
        for part in encode_frame(Command(0, None, body, opaque=opaque, flag=FLAG_RESPONSE))
    )


@pytest.mark.parametrize("give", [feed, decipher])
@given(
    bodies=st.lists(st.binary(max_size=200), min_size=1, max_size=12),
    cuts=st.lists(st.integers(1, 300), min_size=1, max_size=6),
)
def test_bodies_are_the_same_however_the_bytes_come(
    give: Callable[[BlockReader, bytes, list[int]], None], bodies: list[bytes], cuts: list[int]
) -> None:
    async def run() -> list[bytes]:
        reader, _, answers = reader_and_answers(len(bodies))
        give(reader, frames(bodies), cuts)
        return [bytes((await answer).body_view) for answer in answers]

    assert asyncio.run(run()) == bodies


@pytest.mark.parametrize("cut", [65_536, 1_000_003, 2 * BLOCK_BYTES])
async def test_what_was_read_stays_as_it_was_when_blocks_are_full(cut: int) -> None:
    sizes = [100, 3 * MB, 0, 5 * MB, 7, 9 * MB, 3 * MB, 12 * MB]
    bodies = [bytes([index]) * size for index, size in enumerate(sizes)]
    reader, _, answers = reader_and_answers(len(bodies))
    feed(reader, frames(bodies), [cut])
    assert [bytes((await answer).body_view) for answer in answers] == bodies


async def test_small_replies_are_views_of_one_block() -> None:
    bodies = [b"a" * 1000, b"b" * 1000, b"c" * 1000]
    reader, _, answers = reader_and_answers(3)
    feed(reader, frames(bodies), [777])
    views = [(await answer).body_view for answer in answers]
    assert all(isinstance(view, memoryview) for view in views)
    assert len({id(memoryview(view).obj) for view in views}) == 1


@pytest.mark.parametrize("start", ["ffffffff", "7fffffff", "00000002", "000000ff01ffffff"])
async def test_a_frame_whose_length_is_impossible_ends_the_connection(start: str) -> None:
    reader, transport, (answer,) = reader_and_answers(1)
    feed(reader, frames([b"body"]) + bytes.fromhex(start) + bytes(300), [50])
    assert bytes((await answer).body_view) == b"body"
    assert transport.closed


@given(st.lists(st.lists(st.integers(0, 60), max_size=9), max_size=6), st.integers(0, 40))
def test_records_are_found_in_all_stretches_in_order(
    stretches: list[list[int]], between: int
) -> None:
    data, begins, ends, expected, owners = b"", [], [], [], []
    for index, bodies in enumerate(stretches):
        data += b"\x7f" * between
        records = b"".join(RecordFields(body=b"x" * size).encode() for size in bodies)
        begins.append(len(data))
        expected += positions_in(records, start=len(data))
        owners += [index] * len(bodies)
        data += records
        ends.append(len(data))
    buffer = np.frombuffer(data or b"\0", np.uint8)
    places = places_in(buffer, np.array(begins, np.int64), np.array(ends, np.int64))
    assert places.positions.tolist() == expected
    assert places.stretch.tolist() == owners
    assert (places.sizes > 0).all()


def test_a_record_that_does_not_fit_ends_its_stretch_only() -> None:
    sound = RecordFields(body=b"sound").encode()
    broken = (2**30).to_bytes(4, "big") + sound[4:]
    empty = bytes(4) + sound[4:]
    data = sound + broken + sound + empty + sound + sound
    size = len(sound)
    begins = np.array([0, 2 * size, 4 * size])
    places = places_in(np.frombuffer(data, np.uint8), begins, begins + 2 * size)
    assert places.positions.tolist() == [size * index for index in range(6)]
    assert places.sizes.tolist() == [size, -1, size, -1, size, size]


def test_records_may_differ_in_length() -> None:
    records = [RecordFields(body=b"x" * size).encode() for size in (0, 5000, 1)]
    short = replace(RecordFields(), body=b"").encode()
    data = b"".join(records) + short
    begins = np.array([0, len(data) - len(short)])
    ends = np.array([len(data) - len(short), len(data)])
    places = places_in(np.frombuffer(data, np.uint8), begins, ends)
    assert places.positions.tolist() == positions_in(data)
    assert places.stretch.tolist() == [0, 0, 0, 1]
