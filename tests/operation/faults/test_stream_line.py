"""A byte stream that a partition holds back."""

from __future__ import annotations

import asyncio

from pocketmq.operation.faults.rule import FaultRule
from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.operation.faulty_network.stream_line import MOST_HELD_BYTES, StreamLine

MASTER = "h:1"
PARTED = FaultRule(do="partition", role="slave", other="master").checked()


class Socket(asyncio.Transport):
    """What a socket's transport was told."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.is_aborted = False
        self.written = b""

    def is_closing(self) -> bool:
        return self.is_aborted

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def abort(self) -> None:
        self.is_aborted = True


class Slave(asyncio.Protocol):
    """Reads the stream."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport


def followed() -> tuple[RuleBook, Socket, asyncio.Transport]:
    """The slave's rules, its socket, and what it has of it."""
    book, socket, slave = RuleBook("slave", lambda: 0), Socket(), Slave()
    StreamLine(slave, book, MASTER).connection_made(socket)
    return book, socket, slave.transport


def part(book: RuleBook, *rules: FaultRule) -> None:
    book.replace(rules, {"master": MASTER, "slave": "h:2"})


def test_what_is_written_during_a_partition_arrives_after_it() -> None:
    book, socket, transport = followed()
    transport.write(b"a")
    part(book, PARTED)
    for data in (b"b", b"c"):
        transport.write(data)
    assert (socket.written, socket.is_read) == (b"a", False)
    part(book)
    transport.write(b"d")
    assert (socket.written, socket.is_read) == (b"abcd", True)


def test_nothing_is_read_before_both_its_user_and_the_rules_allow_it() -> None:
    book, socket, transport = followed()
    transport.pause_reading()
    part(book, PARTED)
    part(book)
    assert not socket.is_read  # the slave has as much as it may hold
    part(book, PARTED)
    transport.resume_reading()
    assert not socket.is_read
    part(book)
    assert socket.is_read


def test_what_waits_is_bounded() -> None:
    book, socket, transport = followed()
    part(book, PARTED)
    transport.write(bytes(MOST_HELD_BYTES))
    assert not socket.is_aborted
    transport.write(b"x")
    assert socket.is_aborted
