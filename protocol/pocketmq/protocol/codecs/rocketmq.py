"""Encoding 1: RocketMQ's binary header (E-4); `frame.py` shows one byte by byte.

    code i16 | language i8 | version i16 | opaque i32 | flag i32
    remark i32 + bytes | ext i32 + bytes
    each ext entry: name i16 + bytes | value i32 + bytes

The code has 16 bits, so the codes of pop arrive truncated: POP_MESSAGE (200050) as 3442. A decoded
request has the full code again.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import FLAG_RESPONSE, Buffer, Command, Encoding, HeaderCodec
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.header import Header, HeaderT, convert, to_text_value

_FIXED = struct.Struct(">hbhiii")
FIXED_BYTES = _FIXED.size
"""What each header begins with."""

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_LONG_CODES = {int(code) & 0xFFFF: int(code) for code in RequestCode if code > 0x7FFF}
"""What is left of longer codes; none of them has bit 15, which would make it negative."""


def fixed_part(header: Buffer) -> tuple[int, int, int]:
    """Code, opaque and flag of a request's header of `FIXED_BYTES` at least."""
    code, _, _, opaque, flag, _ = _FIXED.unpack_from(header)
    return _LONG_CODES.get(code, code), opaque, flag


class RocketmqCodec(HeaderCodec):
    """RocketMQ binary headers, parsed by hand: no C decoder knows them."""

    def decode(self, header: memoryview) -> Command:
        code, language, version, opaque, flag, remark_len = _FIXED.unpack_from(header)
        at = _FIXED.size
        # Check each length before using it: a header may announce more than it holds.
        if remark_len < 0 or at + remark_len + 4 > len(header):
            raise FrameError(
                f"the remark has {remark_len} bytes and does not fit into the header, which has "
                f"{len(header)} bytes"
            )
        remark = str(header[at : at + remark_len], "utf-8") if remark_len else None
        at += remark_len
        (ext_len,) = _I32.unpack_from(header, at)
        at += 4
        if ext_len < 0 or at + ext_len > len(header):
            raise FrameError(
                f"the fields have {ext_len} bytes and do not fit into the header, which has "
                f"{len(header)} bytes"
            )
        fields = _read_fields(header[at : at + ext_len]) if ext_len else None
        # A request's code has 16 bits: restore the longer codes of pop, which come truncated.
        if not flag & FLAG_RESPONSE:
            code = _LONG_CODES.get(code, code)
        return Command(
            code,
            fields,
            opaque=opaque,
            flag=flag,
            remark=remark,
            encoding=Encoding.ROCKETMQ,
            language=language,
            version=version,
        )

    def encode(self, command: Command) -> bytes:
        ext = command.ext
        fields: Mapping[str, object]
        fields = ext.to_text() if isinstance(ext, Header) else command.fields
        entries: list[bytes] = []
        # A value of None is an absent field: Java's map has no entry for it.
        for name, value in fields.items():
            if value is None:
                continue
            key, text = name.encode(), to_text_value(value).encode()
            entries += (_I16.pack(len(key)), key, _I32.pack(len(text)), text)
        block = b"".join(entries)
        remark = (command.remark or "").encode()
        # As in RocketMQ, a code over 16 bits loses its top bits.
        code = command.code & 0xFFFF
        return b"".join(
            (
                _FIXED.pack(
                    # A signed short: a code from 2**15 on is written as a negative number.
                    code - 0x10000 if code & 0x8000 else code,
                    command.language,
                    command.version,
                    command.opaque,
                    command.flag,
                    len(remark),
                ),
                remark,
                _I32.pack(len(block)),
                block,
            )
        )

    def decode_fields(self, data: Buffer | msgspec.Raw, cls: type[HeaderT]) -> HeaderT:
        return convert(self.decode_mapping(data), cls)

    def decode_mapping(self, data: Buffer | msgspec.Raw) -> Mapping[str, object]:
        return _read_fields(memoryview(data))


def _read_fields(block: memoryview) -> dict[str, str]:
    fields: dict[str, str] = {}
    at, end = 0, len(block)
    while at < end:
        (size,) = _I16.unpack_from(block, at)
        at += 2
        if size < 0 or at + size > end:
            raise FrameError(
                f"the field name at byte {at} has {size} bytes, but the block of all fields ends "
                f"at byte {end}"
            )
        name = str(block[at : at + size], "utf-8")
        at += size
        (size,) = _I32.unpack_from(block, at)
        at += 4
        if size < 0 or at + size > end:
            raise FrameError(
                f"the value of field {name!r} at byte {at} has {size} bytes, but the block of all "
                f"fields ends at byte {end}"
            )
        # Java writes an empty text with length 0 and reads that back as null. `convert` takes it as
        # an empty text where a text is declared, and as absent everywhere else.
        fields[name] = str(block[at : at + size], "utf-8")
        at += size
    return fields
