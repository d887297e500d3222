"""`Command`: one request or response, whichever codec encoded its header (E-3 to E-8).

Both ends of a connection send requests, and any number may be under way. The sender numbers its
requests (`opaque`); a response carries the number of its request, and responses may come in any
order:

    client                                      broker
    #7 PULL_MESSAGE (11)               ->
    #8 SEND_MESSAGE_V2 (310)           ->
                                       <-       response #8, SUCCESS (0)
                                       <-       #1 NOTIFY_CONSUMER_IDS_CHANGED (40), oneway:
                                                it is never answered
                                       <-       response #7, PULL_NOT_FOUND (19), 15 s later

A decoded command keeps its extension fields as the codec found them; `header(cls)` decodes them
into the typed header on demand, so that a request without a processor costs nothing. A command
built to be sent holds the typed header itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Protocol, TypeAlias

import msgspec

from pocketmq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pocketmq.protocol.errors import FrameError
from pocketmq.protocol.header import NO_FIELDS, Header, HeaderT, convert

Buffer: TypeAlias = bytes | bytearray | memoryview
Body: TypeAlias = Buffer | Sequence[Buffer]
"""A body to send: one buffer, or several that are written one after the other."""

_Raw = msgspec.Raw  # a module name is looked up in a third of the time of an attribute

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2

VERSION_5_3_3 = 479
"""Ordinal of RocketMQ's `MQVersion` in commands that we send, unless a profile differs (E-7)."""


class Encoding(IntEnum):
    """First byte of the header word: which codec wrote the header."""

    JSON = 0
    ROCKETMQ = 1
    MSGPACK = 77


class HeaderCodec(Protocol):
    """Turns a command's header into bytes and back; one per encoding, in `codecs/`."""

    @property
    def decode(self) -> Callable[[memoryview], Command]:
        """Reads a header as a command without body, whose extension fields are not decoded yet.

        Raises:
            HEADER_ERRORS: the header cannot be read. The caller closes the connection.
        """
        ...

    def encode(self, command: Command) -> bytes:
        """The header of `command`, without frame words and body."""
        ...

    def encode_request(
        self, header: Header, code: int, opaque: int, flag: int, version: int
    ) -> bytes:
        """`encode` of a request of ours; a codec may do it with less work."""
        return self.encode(Command(code, header, b"", opaque, flag, version=version))

    def decode_fields(self, data: Buffer | msgspec.Raw, cls: type[HeaderT]) -> HeaderT:
        """Raw extension fields as a typed header; `BadRequestError` when they do not fit."""
        ...

    def decode_mapping(self, data: Buffer | msgspec.Raw) -> Mapping[str, object]:
        """Raw extension fields by wire name."""
        ...


HEADER_ERRORS = (
    msgspec.MsgspecError,
    UnicodeDecodeError,
    RecursionError,
    struct.error,
    FrameError,
)
"""What reading a header may raise."""

CODECS: dict[Encoding, HeaderCodec] = {}
"""Filled by `pocketmq.protocol.codecs`."""

Ext: TypeAlias = msgspec.Raw | Mapping[str, object] | Header | None
"""Extension fields: undecoded bytes of their codec, a mapping by name, a typed header, or none."""


class Command(msgspec.Struct, eq=False, gc=False):
    """A request or a response.

    A msgspec struct because one is made per frame: a fifth of the cost of a slots class.
    """

    code: int
    ext: Ext = None
    body: Body = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None
    encoding: Encoding = Encoding.MSGPACK
    language: int = LanguageCode.PYTHON
    version: int = VERSION_5_3_3

    @property
    def is_response(self) -> bool:
        """Whether this answers a request of ours."""
        return bool(self.flag & FLAG_RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no response, not even an error (E-5)."""
        return bool(self.flag & FLAG_ONEWAY)

    @property
    def body_view(self) -> bytes | bytearray | memoryview:
        """The body of a received command as one buffer, not copied."""
        body = self.body
        if isinstance(body, (bytes, bytearray, memoryview)):
            return body
        return b"".join(body)

    def header(self, cls: type[HeaderT]) -> HeaderT:
        """The extension fields as a typed header.

        Raises:
            BadRequestError: a field is missing or does not fit; the message names it.
        """
        ext = self.ext
        # Compare types instead of `isinstance`, for speed: this runs for every request.
        if type(ext) is _Raw:
            return CODECS[self.encoding].decode_fields(ext, cls)
        if isinstance(ext, cls):
            return ext
        # The ROCKETMQ encoding and signed requests have a mapping of texts.
        return convert(self.fields, cls)

    @property
    def fields(self) -> Mapping[str, object]:
        """All extension fields by wire name, also what no header declares (`AccessKey`)."""
        ext = self.ext
        if ext is None:
            return NO_FIELDS
        if isinstance(ext, msgspec.Raw):
            return CODECS[self.encoding].decode_mapping(ext)
        if isinstance(ext, Header):
            # A typed header, from a test or from another role in this process.
            return msgspec.to_builtins(ext)  # type: ignore[no-any-return]
        return ext

    def reply(
        self,
        header: Header | Mapping[str, object] | None = None,
        body: Body = b"",
        *,
        code: int = ResponseCode.SUCCESS,
        remark: str | None = None,
    ) -> Command:
        """The response to this request, in the encoding of the request (E-10)."""
        return Command(
            code,
            header,
            body,
            opaque=self.opaque,
            flag=FLAG_RESPONSE,
            remark=remark,
            encoding=self.encoding,
        )

    def __str__(self) -> str:
        if self.is_response:
            name = _name(ResponseCode, self.code)
            what = f"{name} reply"
        else:
            what = _name(RequestCode, self.code) + (" oneway" if self.is_oneway else "")
        body = self.body
        size = (
            len(body) if isinstance(body, (bytes, bytearray, memoryview)) else sum(map(len, body))
        )
        remark = f" remark={self.remark[:80]!r}" if self.remark else ""
        return f"{what} #{self.opaque} body={size} B{remark}"

    __repr__ = __str__


def _name(codes: type[IntEnum], code: int) -> str:
    try:
        return codes(code).name
    except ValueError:
        return f"code {code}"
