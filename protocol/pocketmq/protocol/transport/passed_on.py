"""`PassedOn`: a connection that a peer made to us, and whose bytes go on to somebody else.

An SDK of RocketMQ 5 that is pointed at a broker's or a nameserver's port speaks HTTP/2. Its first
four bytes are no frame (G-130); the channel then hands the connection over, and everything goes
to the proxy and back as it comes:

    SDK  <->  channel  <->  PassedOn  <->  proxy

What a peer may cost stays bounded: while one end does not read, nothing is read from the other.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol, cast
from urllib.parse import quote

_PREFACE_BYTES: Final = 24
_FRAME_BYTES: Final = 9
"""Of each frame's beginning: length, kind, flags, stream."""
_HEADERS, _SETTINGS, _GOAWAY = 1, 4, 7
_ENDS: Final = 5
"""END_STREAM and END_HEADERS."""
_OK_200: Final = b"\x88"
"""`:status 200` in HPACK's static table."""
_UNAVAILABLE: Final = "14"
_MOST_FIRST_BYTES: Final = 64 * 1024
"""Of a peer that is refused, until its first call has come."""


class Passing(Protocol):
    """A channel that has handed its peer over."""

    frame_began_at: float | None
    """When it was due to end, unless more comes; the sweep of channels closes it then."""

    def hand_over(self, taker: PassedOn) -> bytes:
        """What the peer sends from now on is `taker`'s; what it has sent is returned."""
        ...

    def pass_back(self, data: bytes) -> None:
        """Send this to the peer."""
        ...

    def hold_reading(self, *, held: bool) -> None:
        """Read nothing more of the peer until told otherwise."""
        ...

    def close(self) -> None:
        """Close, once all bytes are sent."""
        ...


def refusal(stream: int, text: str) -> bytes:
    """What ends a call of gRPC, and then the connection (G-133).

    A GOAWAY alone would have gRPC's clients try again at once, without end, and only log the text;
    that of a call is in the error that the SDK raises.
    """
    told = quote(text, safe=" !#$&'()*+,-./:;<=>?@[]^_`{|}~")
    headers = _OK_200 + b"".join(
        b"\0" + _prefixed(name) + _prefixed(value)
        for name, value in (
            ("content-type", "application/grpc"),
            ("grpc-status", _UNAVAILABLE),
            ("grpc-message", told),
        )
    )
    # GOAWAY names the last stream, so that the SDK may retry later calls elsewhere.
    last = stream.to_bytes(4) + bytes(4) + text.encode("ascii", "replace")
    return _frame(_HEADERS, headers, _ENDS, stream) + _frame(_GOAWAY, last)


def _frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def _prefixed(text: str) -> bytes:
    """A string of HPACK, up to 16,510 bytes."""
    data = text.encode("ascii", "replace")
    size = len(data)
    if size < 127:
        return bytes((size,)) + data
    # In HPACK, a length of 127 or more continues in further bytes.
    return bytes((127, (size - 127) & 127 | 128, (size - 127) >> 7)) + data


def first_call(data: bytes) -> int | None:
    """The stream of the first call behind an HTTP/2 preface; None: none has come yet."""
    at = _PREFACE_BYTES
    while len(data) >= at + _FRAME_BYTES:
        # A HEADERS frame is the first call; settings and others come before it.
        if data[at + 3] == _HEADERS:
            return int.from_bytes(data[at + 5 : at + _FRAME_BYTES]) & 0x7FFFFFFF
        at += _FRAME_BYTES + int.from_bytes(data[at : at + 3])
    return None


class PassedOn(asyncio.Protocol):
    """The other end of a handed-over connection, as `Network.dial` wants it.

    Args:
        channel: Of the peer.
        header: Sent before what the peer sent.
    """

    def __init__(self, channel: Passing, header: bytes) -> None:
        self._channel = channel
        self._far: asyncio.Transport | None = None
        self._is_over = False
        self._header = header
        self._first = channel.hand_over(self)
        self._refused = ""
        """Why nobody takes the connection."""
        self._has_answered = False
        """Whether the other end has sent anything: a proxy begins with its settings."""
        channel.hold_reading(held=True)

    @property
    def is_over(self) -> bool:
        """Whether the peer has left, or was told that nobody takes it."""
        return self._is_over

    def refuse(self, text: str) -> None:
        """Nobody takes the connection: the peer's first call is told why.

        Then it is for the peer to hang up; a close by us could have the text lost on its way.
        """
        if self._is_over:
            return
        self._refused = text
        self._channel.frame_began_at = asyncio.get_running_loop().time()  # so it ends soon
        self._channel.pass_back(_frame(_SETTINGS))
        self._channel.hold_reading(held=False)
        self._refuse_call()

    # -- from the peer ----------------------------------------------------------------------

    def peer_sent(self, data: bytes) -> None:
        """Bytes of the peer."""
        if self._far is not None:
            self._far.write(data)
            return
        if self._is_over:
            return
        # Keep the first bytes until the other end is connected.
        self._first += data
        if self._refused:
            self._refuse_call()

    def peer_reads(self, *, on: bool) -> None:
        """The peer reads on what it was sent, or has too much waiting."""
        if self._far is not None and not self._far.is_closing():
            if on:
                self._far.resume_reading()
            else:
                self._far.pause_reading()

    def peer_lost(self) -> None:
        """The peer's connection has ended."""
        self._is_over = True
        if self._far is not None:
            self._far.close()

    # -- asyncio.Protocol: from the other end -----------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._far = cast("asyncio.Transport", transport)
        if self._is_over:
            # The peer left while this connection was being made.
            self._far.abort()
            return
        self._channel.hold_reading(held=False)
        # Last, as it may find the buffer full, and hold again. `_first` is kept until the other
        # end answers: if it hangs up before that, the first call in it is told why.
        self._far.write(self._header + self._first)

    def data_received(self, data: bytes) -> None:
        self._has_answered = True
        # After an answer the call is not refused any more, so the first bytes are not needed.
        self._first = b""
        if not self._is_over:
            self._channel.pass_back(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._far = None
        # Once the other end has answered, its loss ends the peer's connection, too.
        if self._has_answered or self._is_over:
            self._channel.close()
        else:  # such as one that takes TLS only
            self.refuse("PocketMQ: the gRPC proxy hung up at once; does it take TLS only?")

    def _refuse_call(self) -> None:
        stream = first_call(self._first)
        if stream:
            self._channel.pass_back(refusal(stream, self._refused))
            self._is_over = True
            self._first = b""
        elif stream == 0 or len(self._first) > _MOST_FIRST_BYTES:
            self._channel.close()

    def pause_writing(self) -> None:
        self._channel.hold_reading(held=True)

    def resume_writing(self) -> None:
        self._channel.hold_reading(held=False)
