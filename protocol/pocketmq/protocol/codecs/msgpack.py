"""Encoding 77 ('M'): PocketMQ's own header, a msgpack map (docs/protocol.md).

    {code, language, version, opaque, flag, remark, ext}

`ext` is a map from the fields' standard names to typed values, or nil. Typed headers are encoded
and decoded by msgspec, in a tenth of the time that `msgpack` takes; untyped ones by `msgpack`.
Both write the same bytes; the tests compare one with the other.

PULL_MESSAGE's `queueOffset`, for example, is the text "9000000000" in encodings 0 and 1, and the
integer `cf 00 00 00 02 18 71 1a 00` here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgpack
import msgspec

from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.command import Buffer, Command, Encoding
from pocketmq.protocol.header import NO_FIELDS, Header, HeaderT, convert
from pocketmq.protocol.scalars import Int32

_Raw = msgspec.Raw  # a module name is looked up in a third of the time of an attribute
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_DECODERS: dict[type[Header], Callable[[Buffer | msgspec.Raw], Any]] = {}
"""What reads the fields of each header that was asked for so far."""

_NIL = b"\xc0"
_PYTHON = int(LanguageCode.PYTHON)


class _Received(Command, gc=False):
    """A command as its header describes it; `FrameDecoder` then sets body and encoding."""

    code: Int32
    language: Int32 = 0
    version: Int32 = 0
    opaque: Int32 = 0
    flag: Int32 = 0
    remark: str | None = None
    ext: msgspec.Raw = msgspec.Raw(_NIL)
    body: Any = b""
    encoding: Any = Encoding.MSGPACK

    def header(self, cls: type[HeaderT]) -> HeaderT:
        ext, decode = self.ext, _DECODERS.get(cls)
        # Decode straight into the typed header; fields that do not fit take the slow way below.
        if decode is not None and type(ext) is _Raw:
            try:
                read: HeaderT = decode(ext)
            except _UNREADABLE:
                pass  # read once more below, which says what is wrong or makes it fit
            else:
                return read
        return Command.header(self, cls)

    @property
    def body_view(self) -> Buffer:
        view: Buffer = self.body  # of a received one it is always one buffer
        return view


class _HeaderOut(msgspec.Struct, gc=False):
    code: int
    language: int
    version: int
    opaque: int
    flag: int
    remark: str | None
    ext: Header


class MsgpackCodec:
    """Msgpack headers."""

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self.decode: Callable[[memoryview], Command] = msgspec.msgpack.Decoder(_Received).decode

    def encode(self, command: Command) -> bytes:
        ext = command.ext
        if isinstance(ext, Header):
            return self._encoder.encode(
                _HeaderOut(
                    command.code,
                    command.language,
                    command.version,
                    command.opaque,
                    command.flag,
                    command.remark,
                    ext,
                )
            )
        # Untyped extension fields are written by `msgpack`, which takes any mapping.
        packed: bytes = msgpack.packb(
            {
                "code": command.code,
                "language": command.language,
                "version": command.version,
                "opaque": command.opaque,
                "flag": command.flag,
                "remark": command.remark,
                "ext": None if ext is None else dict(command.fields),
            }
        )
        return packed

    def encode_request(
        self, header: Header, code: int, opaque: int, flag: int, version: int
    ) -> bytes:
        return self._encoder.encode(_HeaderOut(code, _PYTHON, version, opaque, flag, None, header))

    def decode_fields(self, data: Buffer | msgspec.Raw, cls: type[HeaderT]) -> HeaderT:
        decode = _DECODERS.get(cls)
        if decode is None:
            # Kept by class: making a decoder costs more than reading a header with it.
            decode = _DECODERS[cls] = msgspec.msgpack.Decoder(cls).decode
        try:
            read: HeaderT = decode(data)
        except _UNREADABLE:
            return convert(self.decode_mapping(data), cls)
        return read

    def decode_mapping(self, data: Buffer | msgspec.Raw) -> Mapping[str, object]:
        try:
            fields = msgspec.msgpack.decode(data)
        except _UNREADABLE:
            return NO_FIELDS
        if not isinstance(fields, dict):
            return NO_FIELDS
        # A peer may write keys of other types; those are not extension fields.
        return {name: value for name, value in fields.items() if isinstance(name, str)}
