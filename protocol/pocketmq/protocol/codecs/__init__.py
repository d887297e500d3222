"""The three header codecs, by the byte that announces them on the wire."""

from __future__ import annotations

from pocketmq.protocol.codecs.json import JsonCodec
from pocketmq.protocol.codecs.msgpack import MsgpackCodec
from pocketmq.protocol.codecs.rocketmq import RocketmqCodec
from pocketmq.protocol.command import CODECS, Encoding, HeaderCodec

CODECS[Encoding.JSON] = JsonCodec()
CODECS[Encoding.ROCKETMQ] = RocketmqCodec()
CODECS[Encoding.MSGPACK] = MsgpackCodec()


def codec_of(encoding: Encoding) -> HeaderCodec:
    """The codec of an encoding."""
    return CODECS[encoding]
