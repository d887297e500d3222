"""Compressed message bodies: zlib, and lz4 and zstd where installed (E-42, P-44).

zlib bodies are zlib streams and lz4 bodies are frames, as Java clients write them.
Brokers never inflate. A consumer inflates what any producer sent: `decompress` stops at a limit, so
that a megabyte that inflates to a gigabyte takes no more memory than the limit.
"""

import zlib
from collections.abc import Callable
from enum import IntEnum
from importlib import import_module
from typing import Any, Final

from pocketmq.protocol.errors import BodyError, BodyTooLargeError, CompressionUnavailableError
from pocketmq.protocol.scalars import MessageSysFlag

DEFAULT_MAX_BODY_BYTES: Final = 4 * 1024 * 1024
"""RocketMQ's `maxMessageSize`, which bounds a body before compression (P-22)."""
DEFAULT_LEVEL: Final = 5


class CompressionKind(IntEnum):
    """How a body is compressed; the value stands in bits 8-10 of the message's `sysFlag`."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """COMPRESSED and the type bits; `MessageSysFlag.COMPRESSED` alone is what 4.9 writes."""
        return MessageSysFlag.COMPRESSED | self.value << 8


def kind_of(sys_flag: int) -> CompressionKind:
    """The kind that a `sysFlag` names; no type bits mean zlib.

    Raises:
        BodyError: the bits name no kind.
    """
    number = (sys_flag & MessageSysFlag.COMPRESSION_MASK) >> 8
    if number == 0:
        return CompressionKind.ZLIB
    try:
        return CompressionKind(number)
    except ValueError:
        raise BodyError(f"sysFlag {sys_flag:#x} names compression type {number}") from None


def compress(
    body: bytes | memoryview,
    kind: CompressionKind = CompressionKind.ZLIB,
    level: int = DEFAULT_LEVEL,
) -> bytes:
    """The body as it travels; the caller ORs `kind.sys_flag` into the message's flags.

    Raises:
        CompressionUnavailableError: the kind's library is not installed.
    """
    if kind is CompressionKind.ZLIB:
        return zlib.compress(body, level)
    if kind is CompressionKind.LZ4:
        packed: bytes = _library(kind).compress(body, compression_level=level)
    else:
        packed = _library(kind).ZstdCompressor(level=level).compress(body)
    return packed


def decompress(
    body: bytes | memoryview, sys_flag: int, max_bytes: int = DEFAULT_MAX_BODY_BYTES
) -> bytes:
    """The body as its producer wrote it.

    Never makes more than `max_bytes` + 1 bytes of it (zstd: about twice that).

    Bytes after the end of the compressed stream are ignored, as Java's Inflater does.

    Raises:
        BodyError: broken, cut short, or of an unknown kind.
        BodyTooLargeError: it inflates beyond `max_bytes`.
        CompressionUnavailableError: the kind's library is not installed.
    """
    plain = _INFLATE[kind_of(sys_flag)](body, max_bytes + 1)
    if len(plain) > max_bytes:
        raise BodyTooLargeError(len(body), max_bytes)
    return plain


def _inflate_zlib(body: bytes | memoryview, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, limit)
    except zlib.error as exc:
        raise BodyError(f"zlib says {exc}") from exc
    # At `limit` this function stopped reading; any shorter stream was cut by its sender.
    if not stream.eof and len(plain) < limit:
        raise BodyError("the zlib stream is cut short")
    return plain


def _inflate_lz4(body: bytes | memoryview, limit: int) -> bytes:
    stream = _library(CompressionKind.LZ4).LZ4FrameDecompressor()
    try:
        plain: bytes = stream.decompress(body, limit)
    except (RuntimeError, ValueError) as exc:
        raise BodyError(f"lz4 says {exc}") from exc
    if not stream.eof and len(plain) < limit:
        raise BodyError("the lz4 frame is cut short")
    return plain


def _inflate_zstd(body: bytes | memoryview, limit: int) -> bytes:
    # The library bounds either its output (stream_reader) or tells a cut frame from a whole one
    # (decompressobj), not both. Fed this little at a time, 4 bytes for a block of 128 KiB at best,
    # one step makes no more than about `limit`.
    step = 4 * (limit // _ZSTD_BLOCK_BYTES + 1)
    window = max(limit, _ZSTD_WINDOW_BYTES)
    zstandard = _library(CompressionKind.ZSTD)
    stream = zstandard.ZstdDecompressor(max_window_size=window).decompressobj()
    view = memoryview(body)
    parts: list[bytes] = []
    size = 0
    try:
        for start in range(0, len(view), step):
            part = stream.decompress(view[start : start + step])
            parts.append(part)
            size += len(part)
            if stream.eof or size >= limit:
                break
    except zstandard.ZstdError as exc:
        raise BodyError(f"zstd says {exc}") from exc
    if not stream.eof and size < limit:
        raise BodyError("the zstd frame is cut short")
    return b"".join(parts)


_ZSTD_BLOCK_BYTES: Final = 128 * 1024
_ZSTD_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""What every zstd decoder is asked to support; a frame may claim gigabytes."""

_INFLATE: Final[dict[CompressionKind, Callable[[bytes | memoryview, int], bytes]]] = {
    CompressionKind.ZLIB: _inflate_zlib,
    CompressionKind.LZ4: _inflate_lz4,
    CompressionKind.ZSTD: _inflate_zstd,
}

_MODULES: Final = {
    CompressionKind.LZ4: ("lz4.frame", "lz4"),
    CompressionKind.ZSTD: ("zstandard", "zstandard"),
}


def _library(kind: CompressionKind) -> Any:
    """The optional library, loaded when first needed: a light install starts without it."""
    module, package = _MODULES[kind]
    try:
        return import_module(module)
    except ImportError as exc:
        raise CompressionUnavailableError(kind.name.lower(), package) from exc
