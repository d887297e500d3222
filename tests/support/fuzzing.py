"""Inputs made from others, guided by the code that they reach: a fuzzer of a page.

    found = fuzz(TARGETS["record"], seeds, runs=10_000, chance=Random(1))

An input that takes a step from line to line which none before took is kept, and changed further.
A target may raise what it says it raises, and nothing else, at a bounded cost (`cost.py`).
"""

from __future__ import annotations

import gc
import struct
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from pocketmq.protocol.bodies.clients import HeartbeatData, LockBatchBody
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.bodies.topics import RegisterBrokerBody
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import (
    BadRequestError,
    BatchError,
    FilterError,
    IllegalNameError,
    RecordError,
    SubscriptionError,
)
from pocketmq.protocol.filters.sql92 import compile_sql92
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.headers.clients import UnregisterClientRequestHeader
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pocketmq.protocol.hosts import pack_host
from pocketmq.protocol.messages.batch import decode_batch, encode_batch
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import Message
from pocketmq.protocol.messages.properties import decode_properties
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.stored.record import decode_records, encode_record
from support.cost import least_and_bound_s, slowest_s

PROTOCOL = str(Path(sys.modules[FrameDecoder.__module__].__file__ or "").parent)
TRIES = 25
"""An input that seems to cost too much is fed again so often, untraced: the least counts."""
MOST_BYTES = 4096

HEADERS = (
    PullMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    UnregisterClientRequestHeader,
)
BODIES = (HeartbeatData, LockBatchBody, RegisterBrokerBody, TopicRouteData)


@dataclass(frozen=True)
class Target:
    """What is fed, and what it may raise."""

    feed: Callable[[bytes], object]
    may_raise: tuple[type[Exception], ...]
    words: tuple[bytes, ...] = ()
    """Pieces that inputs are likely to be made of."""


@dataclass
class Found:
    """What a run came to."""

    runs: int = 0
    steps: int = 0
    """Different steps from line to line that were reached."""
    kept: int = 0
    slowest_s: float = 0.0
    faults: list[tuple[bytes, str]] = field(default_factory=list)


def fuzz(target: Target, seeds: Sequence[bytes], *, runs: int, chance: Random) -> Found:
    """Feed a target with the seeds, then with what comes of them."""
    found = Found()
    seen: set[tuple[int, int, int]] = set()
    corpus: list[bytes] = []
    bound_s = slowest_s()

    def untraced_s(data: bytes) -> float:
        began = time.thread_time()
        with suppress(Exception):  # told already
            target.feed(data)
        return time.thread_time() - began

    def feed(data: bytes) -> None:
        trace = _Trace()
        began = time.thread_time()
        sys.settrace(trace.enter)
        try:
            target.feed(data)
        except target.may_raise:
            pass
        except Exception as exc:  # noqa: BLE001 - this is what is looked for
            found.faults.append((data, f"{type(exc).__name__}: {exc}"))
        finally:
            sys.settrace(None)
        took = time.thread_time() - began
        found.slowest_s = max(found.slowest_s, took)
        if took >= bound_s:  # tracing makes it ten times as long
            least_s, most_s = least_and_bound_s(took, partial(untraced_s, data), TRIES)
            if least_s >= most_s:
                found.faults.append((data, f"took {1000 * least_s:.0f} of {1000 * most_s:.0f} ms"))
        found.runs += 1
        if not trace.steps <= seen:
            seen.update(trace.steps)
            corpus.append(data)

    with suppress(Exception):
        target.feed(next(iter(seeds), b""))  # what is loaded at the first use
    gc.disable()  # a collection walks what all tests of this process have made
    try:
        for seed in seeds or [b""]:
            feed(seed[:MOST_BYTES])
        while found.runs < runs:
            feed(_changed(chance.choice(corpus), corpus, target.words, chance))
    finally:
        gc.enable()
    found.steps, found.kept = len(seen), len(corpus)
    return found


class _Trace:
    """Steps from line to line within the protocol's code."""

    def __init__(self) -> None:
        self.steps: set[tuple[int, int, int]] = set()

    def enter(self, frame: FrameType, _event: str, _value: object) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(PROTOCOL):
            return None
        last = 0
        number = id(code)
        add = self.steps.add

        def line(frame: FrameType, _event: str, _value: object) -> Any:
            nonlocal last
            here = frame.f_lineno
            add((number, last, here))
            last = here
            return line

        return line


INTERESTING = (0, 1, 2, 0x7F, 0x80, 0xFF, 0x20, 0x22, 0x5B, 0x7B, 0xC1, 0xDD)
LENGTHS = (0, 1, 4, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x01000001)


def _changed(data: bytes, corpus: Sequence[bytes], words: Sequence[bytes], chance: Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(made) + 1)
        match chance.randrange(8):
            case 0 if at < len(made):
                made[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(made):
                made[at] = chance.choice(INTERESTING)
            case 2:
                del made[at : at + chance.randrange(1, 9)]
            case 3:
                made[at:at] = made[at : at + chance.randrange(1, 33)]
            case 4:
                made[at : at + 4] = struct.pack(">I", chance.choice(LENGTHS))
            case 5 if words:
                made[at:at] = chance.choice(words)
            case 6:
                other = chance.choice(corpus)
                start = chance.randrange(len(other) + 1)
                made[at:] = other[start:]
            case _:
                made[at:at] = chance.randbytes(chance.randrange(1, 5))
    return bytes(made[:MOST_BYTES])


# -- targets --------------------------------------------------------------------------------------


def _frames(data: bytes) -> None:
    decoder = FrameDecoder()
    for command in decoder.feed(data[: len(data) // 2]) + decoder.feed(data[len(data) // 2 :]):
        _use(command)


def _header(data: bytes) -> None:
    """The first byte chooses the encoding; the rest is a header in a frame that is right."""
    encoding = list(Encoding)[(data[0] if data else 0) % len(Encoding)]
    header = data[1:]
    frame = struct.pack(">iI", 4 + len(header), encoding << 24 | len(header)) + header
    for command in FrameDecoder().feed(frame):
        _use(command)


def _use(command: Any) -> None:
    """As a processor does; each may refuse."""
    str(command)
    for read in (lambda: dict(command.fields), *(lambda c=c: command.header(c) for c in HEADERS)):
        try:
            read()
        except BadRequestError:
            continue


def _body(data: bytes) -> None:
    kind = data[0] if data else 0
    encoding = (Encoding.JSON, Encoding.MSGPACK)[kind % 2]
    decode_body(data[1:], BODIES[kind // 2 % len(BODIES)], encoding)


def _record(data: bytes) -> None:
    for message in decode_records(data):
        assert isinstance(message.properties, dict)
        assert len(message.raw_body) == message.body_size
        assert message.born_host
        assert message.msg_id


def _batch(data: bytes) -> None:
    for entry in decode_batch(data):
        decode_properties(entry.properties.decode("utf-8", "replace"))


def _sql(data: bytes) -> None:
    compiled = compile_sql92(data.decode("utf-8", "replace"))
    for properties in ({}, {"a": "1"}, {"a": "x", "b": "2.5", "c": "true"}):
        assert compiled.matches(properties) in (True, False)


def _texts(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    decode_properties(text)
    for read in (
        lambda: parse_offset_msg_id(text),
        lambda: SubscriptionData.parse("T", text, 1).matches_tag(text),
    ):
        try:
            read()
        except (IllegalNameError, SubscriptionError):
            continue


TARGETS = {
    "frame": Target(_frames, (), (b"\0\0\0\x10", b"\0\0\0\x08", b"M\0\0\x08", b"{}")),
    "header": Target(
        _header,
        (),
        (
            b"\0",
            b"\1",
            b'{"code":11,"extFields":{',
            b'"queueId":"1"',
            b"\x87\xa4code",
            b"}}",
            b"\x81",
        ),
    ),
    "body": Target(
        _body,
        (BadRequestError,),
        (b'{"clientID":"x"', b"\x81\xa8clientID", b'{"$ref":"$"}', b"[{", b"\x91\x81", b"}]"),
    ),
    "record": Target(_record, (RecordError,), (b"\xda\xa3\x20\xa7", b"\xcb\xd4\x31\x94", bytes(8))),
    "batch": Target(_batch, (BatchError,), (bytes(4), b"\0\0\0\x17", b"TAGS\x01a\x02")),
    "sql": Target(
        _sql,
        (FilterError,),
        tuple(
            f" {word} ".encode()
            for word in (
                *("a", "b", "=", "<>", "<", ">=", "AND", "OR", "NOT", "IN", "(", ")", "'x'", "1"),
                *("BETWEEN", "IS", "NULL", "TRUE", "FALSE", "2.5", "CONTAINS", "STARTSWITH", ","),
            )
        ),
    ),
    "text": Target(_texts, (), (b"\x01", b"\x02", b"||", b"7F000001", b"*")),
}


_RECORD = encode_record(
    topic=b"orders",
    queue_id=1,
    flag=0,
    queue_offset=7,
    physical_offset=1000,
    sys_flag=0,
    born_timestamp_ms=1,
    born_host=pack_host("127.0.0.1", 10911),
    store_timestamp_ms=2,
    store_host=pack_host("127.0.0.1", 10911),
    reconsume_times=0,
    prepared_transaction_offset=0,
    body=b"hello",
    properties=b"TAGS\x01a\x02KEYS\x01k\x02",
)
_BATCH = encode_batch([Message("T", b"x", tags="a"), Message("T", b"yy")])


def seeds_of(name: str, golden: Path) -> list[bytes]:
    """What inputs begin with: bytes that RocketMQ and we wrote."""
    frames = [
        bytes.fromhex("".join(line for line in path.read_text().split("\n") if line[:1] != "#"))
        for folder in ("wire", "wire77")
        for path in sorted((golden / folder).rglob("*.hex"))
    ]
    headers = [
        bytes([list(Encoding).index(Encoding(frame[4]))])
        + frame[8 : 8 + int.from_bytes(frame[5:8])]
        for frame in frames
        if len(frame) > 8
    ]
    bodies = [
        bytes([2 * kind + (frame[4] == Encoding.MSGPACK)]) + frame[8 + int.from_bytes(frame[5:8]) :]
        for frame in frames
        if len(frame) > 8
        for kind in range(len(BODIES))
    ]
    return {
        "frame": frames,
        "header": headers,
        "body": bodies,
        "sql": [b"a = 1", b"a BETWEEN 1 AND 5 OR NOT (b IS NULL)", b"a IN ('x', 'y') AND c = TRUE"],
        "text": [b"KEYS\x01k\x02TAGS\x01a\x02", b"7F00000100002A9F0000000000000001", b"a || b"],
        "record": [_RECORD, _RECORD * 2],
        "batch": [_BATCH],
    }.get(name, [b""])
