"""Frames: where one command ends and the next begins (E-1, E-2).

TCP carries bytes and keeps no boundaries: one read may bring half a command or fifty of them. Each
command therefore travels as a *frame*, which begins with its own length:

    0        4        5            8                  8 + header length
    +--------+--------+------------+------------------+-----------------+
    | length | codec  | header len | header           | body            |
    | i32    | u8     | u24        |                  |                 |
    +--------+--------+------------+------------------+-----------------+

`length` counts everything after itself. `codec` says how the header is encoded: 0 JSON, 1
RocketMQ's binary form, 77 msgpack (`codecs/`). The body is opaque here.

One frame in binary form, 44 bytes: which brokers have topic T?

    00000028                  40 bytes follow
    01 000023                 codec 1, a header of 35 bytes
    0069 00 018f              GET_ROUTEINFO_BY_TOPIC (105), from JAVA (0), version 399
    00000009 00000000         opaque 9, flag 0: a request
    00000002 6869             remark of 2 bytes: hi
    0000000c                  12 bytes of fields
    0005 746f706963           a name of 5 bytes: topic
    00000001 54               its value of 1 byte: T
    42                        body: B

To read, feed a `FrameDecoder` whatever arrived, and process the commands that it returns. To write,
pass the buffers of `encode_frame` on. A length is checked as soon as its four bytes are there,
before anything of the frame is kept, so that a peer that announces 2 GB costs no memory. A header
over the limit of a server is passed over, and its sender told (`long_header.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pocketmq.protocol.codecs  # noqa: F401 - fills CODECS
from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.command import CODECS, HEADER_ERRORS, Body, Buffer, Command, Encoding
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.header import Header
from pocketmq.protocol.long_header import LongHeader, TooLong

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Largest frame, its length word included."""

MAX_HEADER_BYTES = (1 << 24) - 1
"""What three bytes can say; servers take less (`budget.header_bytes`)."""

_MOST_BYTES = MAX_FRAME_BYTES - 4
_WORD = struct.Struct(">i")
_WORDS = struct.Struct(">iI")
_LANGUAGES = frozenset(int(code) for code in LanguageCode)
_ENCODINGS = {int(encoding): encoding for encoding in Encoding}

HTTP2 = b"PRI "
"""How an SDK of RocketMQ 5 begins (G-130)."""

_GRPC = (
    "it is HTTP/2: RocketMQ's gRPC clients connect to a proxy; point them at that of "
    "`pocketmq up` or `pocketmq proxy` (docs/grpc.md)"
)
_HTTP = "it is HTTP, which this port does not speak; the control address has a port of its own"
_TLS = "it is TLS, which is switched off here (tls.server.mode=disabled)"
_OTHER_PROTOCOLS = {
    HTTP2: _GRPC,
    **dict.fromkeys((b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"HTTP"), _HTTP),
    **{bytes((0x16, 3, minor, high)): _TLS for minor in range(5) for high in range(0x41)},
}
"""The first four bytes of peers that speak another protocol, and what to tell whoever reads the
log. As lengths they are all too large: a TLS record has 16 KiB at most."""


class FrameDecoder:
    """Cuts a byte stream into commands.

    Call `feed` with whatever arrived and process the commands it returns; then look at `failure`:
    when it is set the stream cannot be trusted any more and the connection has to be closed. A body
    is a view of the bytes that were fed: keep it as long as you like, it keeps them alive.
    """

    __slots__ = (
        "_have",
        "_max_bytes",
        "_max_header_bytes",
        "_need",
        "_parts",
        "_passing",
        "failure",
        "is_between",
        "too_long",
    )

    def __init__(
        self, max_frame_bytes: int = MAX_FRAME_BYTES, max_header_bytes: int = MAX_HEADER_BYTES
    ) -> None:
        self._max_header_bytes = max_header_bytes
        self._max_bytes = max_frame_bytes
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 4
        self._passing: LongHeader | None = None
        """A frame that is read and not kept."""
        self.is_between = True
        """The last `feed` ended with a frame's end, and found nothing wrong."""
        self.failure: FrameError | None = None
        self.too_long: list[TooLong] = []
        """Requests whose headers were over the limit: answer them and empty this."""

    @property
    def pending_bytes(self) -> int:
        """Bytes kept of a frame that has begun and not ended; 0 between frames."""
        return self._have or int(self._passing is not None)

    @property
    def pending(self) -> bytes:
        """The beginning of a frame that has not ended."""
        return b"".join(self._parts)

    def speaks_http2(self) -> bool:
        """Whether what cannot be read is the beginning of HTTP/2; `pending` has all of it."""
        return self.failure is not None and self.pending.startswith(HTTP2)

    def forget(self) -> None:
        """Keep nothing of what is pending: somebody else reads on."""
        self._parts, self._have = [], 0

    def feed(self, data: bytes) -> list[Command]:
        """Return the commands that `data` completes, in order; never raises on bad input."""
        self.is_between = False
        # After a failure nobody knows where the next frame begins.
        if self.failure is not None:
            return []
        # Skip the rest of a header over the limit, so that the next frame is found.
        if self._passing is not None:
            taken = self._pass_over(self._passing, memoryview(data))
            if taken == len(data):
                return []
            return self.feed(data[taken:])
        have = self._have
        if have:
            self._parts.append(data)
            self._have = have = have + len(data)
            # The frame is still incomplete: do not join its parts yet.
            if have < self._need:
                return []
            data = b"".join(self._parts)
            self._parts = []
            self._have = 0
        commands: list[Command] = []
        append, unpack = commands.append, _WORDS.unpack_from
        view = memoryview(data)
        at, end = 0, len(data)
        # The length word does not count its own 4 bytes (E-1).
        max_total, max_header = self._max_bytes - 4, self._max_header_bytes
        codec_byte = -1
        # Read the length and the header word together, and check both before anything else.
        while end - at >= 8:
            total, word = unpack(data, at)
            # The first byte is the codec, the other three the length of the header (E-2).
            header_bytes = word & 0xFFFFFF
            body_at = at + 8 + header_bytes
            stop = at + 4 + total
            # Check before any of the frame is kept: a peer may announce gigabytes.
            if body_at > stop or total > max_total or header_bytes > max_header:
                # A frame whose header is merely too long can be skipped; any other fault closes the
                # connection.
                if body_at > stop or total > max_total or word >> 24 not in _ENCODINGS:
                    self._fail(self._bad_lengths(total, header_bytes))
                    # Keep the bytes: they show whether the peer speaks another protocol (HTTP/2,
                    # TLS).
                    self._parts, self._have = [data[at:]], end - at
                    return commands
                passed = LongHeader(
                    _ENCODINGS[word >> 24], header_bytes, stop - body_at, max_header
                )
                at += 8
                at += self._pass_over(passed, view[at:])
                if self._has_failed():
                    return commands
                continue
            # Frames of a connection mostly have the same codec: look it up only when it changes.
            if word >> 24 != codec_byte:
                codec_byte = word >> 24
                if codec_byte not in _ENCODINGS:
                    self._fail(
                        FrameError(f"unknown header encoding {codec_byte}; known are 0, 1 and 77")
                    )
                    return commands
                encoding = _ENCODINGS[codec_byte]
                decode = CODECS[encoding].decode
            # The rest of this frame comes with a later read.
            if stop > end:
                break
            try:
                command = decode(view[at + 8 : body_at])
            except HEADER_ERRORS as exc:
                self._fail(FrameError(f"the {encoding.name} header cannot be read: {exc}"))
                return commands
            # Both are set last: a header cannot override them.
            # A view, so that the body is not copied.
            command.body = view[body_at:stop] if stop != body_at else b""
            command.encoding = encoding
            if command.language not in _LANGUAGES:
                command.language = LanguageCode.OTHER  # a newer client's language is no error
            append(command)
            at = stop
        if at < end:
            rest = data[at:] if at else data
            # The first four bytes of a frame are its length.
            self._need = 4
            if len(rest) >= 4:
                self._learn_need(rest)
            self._parts.append(rest)
            self._have = len(rest)
        else:
            # Without a partial frame or a refused header, the caller can skip its checks.
            self.is_between = self._passing is None and not self.too_long
        return commands

    def _has_failed(self) -> bool:
        return self.failure is not None

    def _pass_over(self, frame: LongHeader, data: memoryview) -> int:
        """Read on in a frame that is not kept; returns how many bytes belong to it."""
        taken = frame.feed(data)
        self._passing = None if frame.is_over else frame
        if frame.is_over:
            request, error = frame.request(), frame.error()
            if request is None:
                # Without the opaque the request cannot be answered: the connection is closed.
                self._fail(FrameError(f"{error}; nor does it tell its opaque"))
            else:
                self.too_long.append(TooLong(request, error))
        return taken

    def _learn_need(self, start: bytes) -> None:
        (total,) = _WORD.unpack_from(start)
        if 4 <= total <= self._max_bytes - 4:
            # Eight bytes at least, so that the header length is judged early as well.
            self._need = max(8, 4 + total) if len(start) >= 8 else 8
        else:
            self._fail(self._bad_lengths(total, 0))

    def _bad_lengths(self, total: int, header_bytes: int) -> FrameError:
        # The length of the frame is in range, so that of its header is wrong.
        if 4 <= total <= self._max_bytes - 4:
            return FrameError(f"a header of {header_bytes} bytes in a frame of {total}")
        # As text, these four bytes often show which protocol the peer speaks.
        why = _OTHER_PROTOCOLS.get(_WORD.pack(total))
        reason = f"frame length {total} is not between 4 and {self._max_bytes - 4}"
        return FrameError(reason if why is None else f"{reason}: {why}")

    def _fail(self, error: FrameError) -> None:
        self.failure = error


def encode_frame(command: Command) -> list[Buffer]:
    """The frame as buffers to be written in order; the first holds length, word and header."""
    encoding = command.encoding
    return _framed(encoding, CODECS[encoding].encode(command), command.body)


def encode_request(
    encoding: Encoding,
    header: Header,
    body: Body,
    code: int,
    opaque: int,
    flag: int,
    version: int,
) -> list[Buffer]:
    """`encode_frame` of a request of ours, for which no `Command` has to be made.

    Raises:
        FrameError: the frame would be longer than a peer accepts.
    """
    encoded = CODECS[encoding].encode_request(header, code, opaque, flag, version)
    return _framed(encoding, encoded, body)


def encode_signed(
    encoding: Encoding,
    fields: Mapping[str, object],
    body: Body,
    code: int,
    opaque: int,
    flag: int,
    version: int,
) -> list[Buffer]:
    """`encode_request` with fields that `Credentials.signed` has made.

    Raises:
        FrameError: the frame would be longer than a peer accepts.
    """
    command = Command(code, fields, b"", opaque, flag, version=version)
    return _framed(encoding, CODECS[encoding].encode(command), body)


def _framed(encoding: Encoding, header: bytes, body: Body) -> list[Buffer]:
    if isinstance(body, (bytes, bytearray, memoryview)):
        size = len(body)
        start = frame_start(encoding, header, size)
        return [start, body] if size else [start]
    return [frame_start(encoding, header, sum(map(len, body))), *body]


def frame_start(encoding: Encoding, header: bytes, body_bytes: int) -> bytes:
    """Length, header word and header of a frame whose body has `body_bytes` bytes.

    Raises:
        FrameError: the frame would be longer than a peer accepts.
    """
    total = 4 + len(header) + body_bytes
    if total > _MOST_BYTES:
        raise FrameError(f"a frame has {total} bytes, but may have at most {MAX_FRAME_BYTES} bytes")
    return _WORDS.pack(total, encoding << 24 | len(header)) + header
