"""Frames: where one command ends and the next begins (wire sheet 1.1).

    0        4        5            8                  8 + header length
    +--------+--------+------------+------------------+-----------------+
    | length | codec  | header len | header           | body            |
    | i32    | u8     | u24        |                  |                 |
    +--------+--------+------------+------------------+-----------------+

`length` counts everything after itself. It is judged as soon as its four bytes are there, before
anything of the frame is kept: nothing is allocated on the word of a length field.
"""

from __future__ import annotations

import struct

from pocketmq.protocol.codecs import codec_of
from pocketmq.protocol.command import CODECS, Command, Encoding
from pocketmq.protocol.errors import FrameError

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Largest frame, its length word included."""

_WORD = struct.Struct(">i")
_WORDS = struct.Struct(">iI")
_CODEC_BY_BYTE = {int(encoding): codec for encoding, codec in CODECS.items()}


class FrameDecoder:
    """Cuts a byte stream into commands.

    Call `feed` with whatever arrived and process the commands it returns; then look at `failure`:
    when it is set the stream cannot be trusted any more and the connection has to be closed. A body
    is a view of the bytes that were fed: keep it as long as you like, it keeps them alive.
    """

    __slots__ = ("_have", "_max_bytes", "_need", "_parts", "failure")

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._max_bytes = max_frame_bytes
        self._parts: list[bytes] = []
        self._have = 0
        self._need = 4
        self.failure: FrameError | None = None

    @property
    def pending_bytes(self) -> int:
        """Bytes of a frame that has begun and not ended; 0 between frames."""
        return self._have

    def feed(self, data: bytes) -> list[Command]:
        """Return the commands that `data` completes, in order; never raises on bad input."""
        if self.failure is not None:
            return []
        have = self._have
        if have:
            self._parts.append(data)
            self._have = have = have + len(data)
            if have < self._need:
                if have >= 4 and self._need == 4:
                    self._learn_need(b"".join(self._parts))
                return []
            data = b"".join(self._parts)
            self._parts = []
            self._have = 0
        commands: list[Command] = []
        append = commands.append
        view = memoryview(data)
        at, end = 0, len(data)
        max_total = self._max_bytes - 4
        while end - at >= 8:
            total, word = _WORDS.unpack_from(data, at)
            if not 4 <= total <= max_total:
                self._fail(_bad_length(total, self._max_bytes))
                return commands
            stop = at + 4 + total
            header_end = at + 8 + (word & 0xFFFFFF)
            if header_end > stop:
                self._fail(FrameError(f"a header of {word & 0xFFFFFF} bytes in a frame of {total}"))
                return commands
            codec = _CODEC_BY_BYTE.get(word >> 24)
            if codec is None:
                self._fail(
                    FrameError(f"unknown header encoding {word >> 24}; known are 0, 1 and 77")
                )
                return commands
            if stop > end:
                break
            try:
                append(codec.decode(view[at + 8 : header_end], view[header_end:stop]))
            except FrameError as exc:
                self._fail(exc)
                return commands
            at = stop
        if at < end:
            rest = data[at:] if at else data
            self._need = 4
            if len(rest) >= 4:
                self._learn_need(rest)
            self._parts.append(rest)
            self._have = len(rest)
        return commands

    def _learn_need(self, start: bytes) -> None:
        (total,) = _WORD.unpack_from(start)
        if 4 <= total <= self._max_bytes - 4:
            # Eight bytes at least, so that the header length is judged early as well.
            self._need = max(8, 4 + total) if len(start) >= 8 else 8
        else:
            self._fail(_bad_length(total, self._max_bytes))

    def _fail(self, error: FrameError) -> None:
        self.failure = error
        self._parts = []
        self._have = 0


def _bad_length(total: int, max_bytes: int) -> FrameError:
    return FrameError(f"frame length {total} is not between 4 and {max_bytes - 4}")


def encode_frame(command: Command) -> list[bytes | bytearray | memoryview]:
    """The frame as buffers to be written in order; the first holds length, word and header."""
    header = codec_of(command.encoding).encode(command)
    body = command.body
    if isinstance(body, (bytes, bytearray, memoryview)):
        size = len(body)
        parts: list[bytes | bytearray | memoryview] = [b"", body] if size else [b""]
    else:
        parts = [b"", *body]
        size = sum(map(len, body))
    parts[0] = frame_start(command.encoding, header, size)
    return parts


def frame_start(encoding: Encoding, header: bytes, body_bytes: int) -> bytes:
    """Length, header word and header of a frame whose body has `body_bytes` bytes.

    Raises:
        FrameError: the frame would be longer than a peer accepts.
    """
    total = 4 + len(header) + body_bytes
    if total > MAX_FRAME_BYTES - 4:
        raise FrameError(f"a frame of {total} bytes is over the limit of {MAX_FRAME_BYTES}")
    return _WORDS.pack(total, encoding << 24 | len(header)) + header
