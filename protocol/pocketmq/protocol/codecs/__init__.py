"""The three header codecs, by the byte that announces them on the wire."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.header import HeaderT


class HeaderCodec(Protocol):
    """Turns a command's header into bytes and back."""

    def decode(self, header: memoryview, body: memoryview) -> Command:
        """A command whose extension fields are not decoded yet.

        Raises:
            FrameError: the header cannot be read at all; the connection is lost.
        """
        ...

    def encode(self, command: Command) -> bytes:
        """The header of `command`, without frame words and body."""
        ...

    def decode_fields(
        self, data: bytes | bytearray | memoryview | msgspec.Raw, cls: type[HeaderT]
    ) -> HeaderT:
        """Raw extension fields as a typed header; `BadRequestError` when they do not fit."""
        ...

    def decode_mapping(
        self, data: bytes | bytearray | memoryview | msgspec.Raw
    ) -> Mapping[str, object]:
        """Raw extension fields by wire name."""
        ...


from pocketmq.protocol.codecs.json import JsonCodec  # noqa: E402 - the protocol comes first
from pocketmq.protocol.codecs.msgpack import MsgpackCodec  # noqa: E402
from pocketmq.protocol.codecs.rocketmq import RocketmqCodec  # noqa: E402

CODECS: Mapping[Encoding, HeaderCodec] = {
    Encoding.JSON: JsonCodec(),
    Encoding.ROCKETMQ: RocketmqCodec(),
    Encoding.MSGPACK: MsgpackCodec(),
}


def codec_of(encoding: Encoding) -> HeaderCodec:
    """The codec of an encoding."""
    return CODECS[encoding]
