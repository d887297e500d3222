"""Encoding 0: the JSON header of RocketMQ (E-3).

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":9,
     "serializeTypeCurrentRPC":"JSON","version":399}

Every extension value is a text on the wire. Reading is lenient where real peers differ: values may
be numbers or booleans, `language` a name, an ordinal or unknown, and unknown keys are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.command import Buffer, Command, Encoding, HeaderCodec
from pocketmq.protocol.header import NO_FIELDS, Header, HeaderT, convert, to_text_value
from pocketmq.protocol.scalars import Int32

_NO_RAW = msgspec.Raw()
_LANGUAGES: dict[str | int, int] = {code.name: int(code) for code in LanguageCode} | {
    int(code): int(code) for code in LanguageCode
}
_LANGUAGE_NAMES = {int(code): code.name for code in LanguageCode}
_NO_INT32 = -1 << 40
"""A default that no number of a header has: numbers are always written."""


class _HeaderIn(msgspec.Struct):
    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    language: str | int | None = None
    version: Int32 | None = 0
    remark: str | None = None
    extFields: msgspec.Raw = _NO_RAW


class _HeaderOut(msgspec.Struct, omit_defaults=True):
    """Keys in the order in which Java writes them."""

    code: int
    extFields: Mapping[str, str] | None = None
    flag: int = _NO_INT32
    language: str = ""
    opaque: int = _NO_INT32
    remark: str | None = None
    serializeTypeCurrentRPC: str = ""
    version: int = _NO_INT32


class JsonCodec(HeaderCodec):
    """JSON headers, read by one C decoder per header type."""

    def __init__(self) -> None:
        self._header = msgspec.json.Decoder(_HeaderIn, strict=False)
        self._mapping = msgspec.json.Decoder(dict[str, Any])
        self._by_class: dict[type[Header], msgspec.json.Decoder[Any]] = {}
        self._encode = msgspec.json.Encoder().encode

    def decode(self, header: memoryview) -> Command:
        read = self._header.decode(header)
        raw = read.extFields
        return Command(
            read.code,
            None if raw is _NO_RAW else raw,
            b"",
            read.opaque,
            read.flag,
            read.remark,
            encoding=Encoding.JSON,
            # The language is a name, an ordinal or missing; an unknown one counts as OTHER.
            language=_LANGUAGES.get(read.language or 0, LanguageCode.OTHER),
            version=read.version or 0,
        )

    def encode(self, command: Command) -> bytes:
        ext = command.ext
        if isinstance(ext, Header):
            fields: Mapping[str, str] | None = ext.to_text()
        elif ext is None:
            fields = None
        else:
            # Leave None out of an untyped mapping: readers would see the text "null".
            fields = {
                name: to_text_value(value)
                for name, value in command.fields.items()
                if value is not None
            }
        return self._encode(
            _HeaderOut(
                command.code,
                # Empty extension fields are left out, as in RocketMQ.
                fields or None,
                command.flag,
                _LANGUAGE_NAMES.get(command.language, "OTHER"),
                command.opaque,
                command.remark,
                "JSON",
                command.version,
            )
        )

    def decode_fields(self, data: Buffer | msgspec.Raw, cls: type[HeaderT]) -> HeaderT:
        decoder = self._by_class.get(cls)
        # Decoders are kept by class: making one costs more than reading a header with it.
        if decoder is None:
            decoder = self._by_class[cls] = msgspec.json.Decoder(cls, strict=False)
        try:
            read: HeaderT = decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # The slow path accepts numbers in text fields, and its error names the wrong field.
            return convert(self.decode_mapping(data), cls)
        return read

    def decode_mapping(self, data: Buffer | msgspec.Raw) -> Mapping[str, object]:
        try:
            return self._mapping.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            # Without a mapping of fields, the caller reports which field is missing.
            return NO_FIELDS
