"""A connection that is passed on: what is held back, and what a peer hears when nobody takes it."""

from __future__ import annotations

import asyncio
from typing import cast

from pocketmq.protocol.transport.passed_on import PassedOn

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CALL = PREFACE + bytes(9) + bytes((0, 0, 0, 1, 5)) + (1).to_bytes(4)
"""A preface, an empty frame, and the head of a call on stream 1."""


class FakeChannel:
    """A channel that has handed its peer over."""

    def __init__(self, first: bytes) -> None:
        self.frame_began_at: float | None = None
        self.first = first
        self.sent = b""
        self.is_held = False
        self.is_closed = False

    def hand_over(self, taker: PassedOn) -> bytes:
        return self.first

    def pass_back(self, data: bytes) -> None:
        self.sent += data

    def hold_reading(self, *, held: bool) -> None:
        self.is_held = held

    def close(self) -> None:
        self.is_closed = True


class FullTransport:
    """The other end, whose buffer is full as soon as anything is written."""

    def __init__(self, protocol: PassedOn) -> None:
        self.protocol = protocol
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data
        self.protocol.pause_writing()


def test_a_full_buffer_keeps_the_peer_from_being_read() -> None:
    channel = FakeChannel(PREFACE)
    passed = PassedOn(channel, b"PROXY ")
    other = FullTransport(passed)
    passed.connection_made(cast("asyncio.Transport", other))
    assert other.written == b"PROXY " + PREFACE
    assert channel.is_held
    passed.resume_writing()
    assert not channel.is_held


async def test_a_proxy_that_hangs_up_at_once_is_named_to_the_peer() -> None:
    channel = FakeChannel(CALL)
    passed = PassedOn(channel, b"")
    passed.connection_made(cast("asyncio.Transport", FullTransport(passed)))
    passed.connection_lost(None)
    assert b"hung up at once" in channel.sent
    assert not channel.is_closed


async def test_a_proxy_that_has_answered_may_hang_up() -> None:
    channel = FakeChannel(CALL)
    passed = PassedOn(channel, b"")
    passed.connection_made(cast("asyncio.Transport", FullTransport(passed)))
    passed.data_received(b"settings")
    passed.connection_lost(None)
    assert channel.sent == b"settings"
    assert channel.is_closed
