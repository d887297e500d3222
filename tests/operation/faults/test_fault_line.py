"""A connection on which fault rules can be set."""

from __future__ import annotations

import asyncio

from pocketmq.operation.faults.rule import CLIENTS, FaultRule
from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.operation.faulty_network.fault_line import FaultLine
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.frame import encode_frame

SLOW = FaultRule(do="delay", delay_ms=1, topic="T").checked()
PARTED = FaultRule(do="partition", role="broker", other=CLIENTS).checked()
OWN, OTHER = RequestCode.ROLE_STATUS, RequestCode.SEND_MESSAGE_V2


class Socket(asyncio.Transport):
    """What was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)


class Inner(asyncio.Protocol):
    """What stands behind the line."""

    unfinished = b""
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport


def frame_of(command: Command) -> bytes:
    return b"".join(bytes(part) for part in encode_frame(command))


def test_an_answered_request_of_our_own_lets_no_later_answer_through() -> None:
    book, socket, inner = RuleBook("broker", lambda: 0), Socket(), Inner()
    line = FaultLine(inner, book)
    line.connection_made(socket)
    book.replace([SLOW], {})
    for number in range(100):  # who watches a role asks it again and again
        request = Command(OWN, None, opaque=number)
        line.data_received(frame_of(request))
        inner.transport.write(frame_of(request.reply()))
    book.replace([PARTED], {})
    sent = len(socket.written)
    assert sent
    request = Command(OTHER, None, opaque=7)
    inner.transport.write(frame_of(request.reply()))
    assert len(socket.written) == sent, "it is held back"
    own = Command(OWN, None, opaque=7)
    line.data_received(frame_of(own))
    inner.transport.write(frame_of(own.reply()))
    assert len(socket.written) > sent
    assert not line._exempt, "what was answered takes no memory"
