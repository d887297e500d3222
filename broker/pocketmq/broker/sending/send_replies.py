"""Answers to stored messages as whole frames, filled into templates (E-20, E-21).

A broker gives this answer for every message it takes. Building a `Command` and encoding it costs
several microseconds, filling a template half a one. The tests hold each template against the
codec.

    msgpack:  words | constant | opaque i32 | constant | msgId | constant | queueId i32 | constant
              | queueOffset i64 | constant | transactionId
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

import msgspec

from pocketmq.broker.address import BrokerAddress
from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.command import FLAG_RESPONSE, Command, Encoding
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.headers.send import SendMessageResponseHeader
from pocketmq.protocol.messages.ids import offset_msg_id, offset_msg_ids

FrameBuilder = Callable[[int, int, int, int, str], bytes]
"""(opaque, physical offset, queue id, queue offset, transaction id) -> frame."""

_to_json = msgspec.json.Encoder().encode
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_WORDS = struct.Struct(">II")


class SendReplies:
    """Frames for sends that were stored: code 0, where the message is, and no body.

    Args:
        address: of this broker; it begins every message id.
        version: stamped on the answers.
        region: MSG_REGION.
        trace_on: TRACE_ON.
        tells_key: the answers have `transactionId`, the message's UNIQ_KEY.
    """

    def __init__(
        self,
        address: BrokerAddress,
        *,
        version: int,
        region: str = "DefaultRegion",
        trace_on: str = "true",
        tells_key: bool = True,
    ) -> None:
        self.of_every_answer = {"MSG_REGION": region, "TRACE_ON": trace_on}
        """Also of refusals."""
        self._tells_key = tells_key
        self.region = region
        self.trace_on = trace_on
        self._address = address
        self._version = version
        self._builders: dict[int, FrameBuilder] = {}

    @property
    def store_host(self) -> bytes:
        """The packed address of this broker."""
        return self._address.packed

    def builder(self, encoding: Encoding) -> FrameBuilder:
        """What builds frames in this encoding. Ask when the broker listens, not before."""
        build = self._builders.get(encoding)
        if build is None:
            build = self._builders[int(encoding)] = self._make(encoding)
        return build

    def _make(self, encoding: Encoding) -> FrameBuilder:
        # 4.9's answers have no transaction id, so the codec makes them.
        if not self._tells_key:
            return self._keyless(encoding)
        if encoding is Encoding.JSON:
            make = self._json_builder
        elif encoding is Encoding.ROCKETMQ:
            make = self._binary_builder
        else:
            make = self._msgpack_builder
        return make(self._version, self.region, self.trace_on)

    def key(self, uniq_key: str | None) -> str | None:
        """What an answer has as `transactionId`, by profile."""
        return uniq_key if self._tells_key else None

    def _keyless(self, encoding: Encoding) -> FrameBuilder:
        """Frames without `transactionId`, as the codec makes them: of 4.9 only."""

        def build(
            opaque: int, physical_offset: int, queue_id: int, queue_offset: int, _key: str
        ) -> bytes:
            ids = offset_msg_id(self.store_host, physical_offset)
            answer = Command(
                0,
                self.header(ids, queue_id, queue_offset, None),
                opaque=opaque,
                flag=FLAG_RESPONSE,
                encoding=encoding,
                version=self._version,
            )
            return b"".join(encode_frame(answer))

        return build

    def to_batch(
        self,
        request: Command,
        offsets: Sequence[int],
        queue_id: int,
        queue_offset: int,
        uniq_key: str | None,
    ) -> Command | bytes:
        """The answer to a batch that was stored: the ids of all its messages, in their order.

        A template where that pays: for JSON, which carries every field as a text.

        Args:
            request: the batch.
            offsets: where its records begin.
            queue_id: where it is stored.
            queue_offset: of its first message.
            uniq_key: UNIQ_KEY of the batch itself, which Java producers give it beside the
                keys of its messages; None for a batch that has none.
        """
        ids = offset_msg_ids(self.store_host, offsets)
        uniq_key = self.key(uniq_key)
        if request.encoding is Encoding.JSON:
            template = self._json_batch
            # A field without a value is left out of JSON, as RocketMQ does.
            key = b"" if uniq_key is None else b',"transactionId":' + _to_json(uniq_key)
            header = template % (ids.encode(), queue_id, queue_offset, key, request.opaque)
            return _WORDS.pack(len(header) + 4, len(header)) + header
        return request.reply(self.header(ids, queue_id, queue_offset, uniq_key))

    def header(
        self, ids: str, queue_id: int, queue_offset: int, uniq_key: str | None
    ) -> SendMessageResponseHeader:
        """The header of an answer to a batch that is not filled into a template."""
        return SendMessageResponseHeader(
            msg_id=ids,
            queue_id=queue_id,
            queue_offset=queue_offset,
            transaction_id=self.key(uniq_key),
            region=self.region,
            trace=self.trace_on,
        )

    @cached_property
    def _json_batch(self) -> bytes:
        return _json_template(self._version, self.region, self.trace_on, b"%s", b"%s")

    @property
    def _host(self) -> bytes:
        return self._address.packed.hex().upper().encode()

    def _json_builder(self, version: int, region: str, trace_on: str) -> FrameBuilder:
        ids, key = self._host + b"%016X", b',"transactionId":%s'
        template = _json_template(version, region, trace_on, ids, key)
        words = _WORDS.pack

        def build(
            opaque: int, physical_offset: int, queue_id: int, queue_offset: int, uniq_key: str
        ) -> bytes:
            header = template % (
                physical_offset,
                queue_id,
                queue_offset,
                _to_json(uniq_key),
                opaque,
            )
            size = len(header)
            return words(size + 4, size) + header

        return build

    def _msgpack_builder(self, version: int, region: str, trace_on: str) -> FrameBuilder:
        to_msgpack = msgspec.msgpack.Encoder().encode
        start = (
            b"\x87\xa4code\x00\xa8language%c\xa7version\xd2%s\xa4flag%c\xa6remark\xc0\xa6opaque\xd2"
            % (LanguageCode.PYTHON, _I32.pack(version), FLAG_RESPONSE)
        )
        # The store host is part of every id, so it belongs to the constant.
        before_id = b"\xa3ext\x86\xaaMSG_REGION%s\xa8TRACE_ON%s\xa5msgId\xd9%c%s" % (
            to_msgpack(region),
            to_msgpack(trace_on),
            len(self._host) + 16,
            self._host,
        )
        before_queue = b"\xa7queueId\xd2"
        before_offset = b"\xabqueueOffset\xd3"
        word = Encoding.MSGPACK << 24

        @lru_cache(maxsize=64)
        def template(key_bytes: int) -> tuple[Callable[..., bytes], bytes, bytes]:
            """For transaction ids of one length: what fills the frame, and its first and last
            constant."""
            # The name and the head of its text: only the text itself differs between answers.
            before_key = b"\xadtransactionId" + to_msgpack("x" * key_bytes)[: -key_bytes or None]
            layout = struct.Struct(
                f">{8 + len(start)}si{len(before_id)}s16s{len(before_queue)}si"
                f"{len(before_offset)}sq{len(before_key) + key_bytes}s"
            )
            size = layout.size - 8
            return layout.pack, _WORDS.pack(size + 4, word | size) + start, before_key

        def build(
            opaque: int, physical_offset: int, queue_id: int, queue_offset: int, uniq_key: str
        ) -> bytes:
            key = uniq_key.encode()
            fill, begin, before_key = template(len(key))
            return fill(
                begin,
                opaque,
                before_id,
                b"%016X" % physical_offset,
                before_queue,
                queue_id,
                before_offset,
                queue_offset,
                before_key + key,
            )

        return build

    def _binary_builder(self, version: int, region: str, trace_on: str) -> FrameBuilder:
        fixed = struct.Struct(">hbhiii")
        id_bytes = len(self._host) + 16
        before_id = (
            _entry(b"MSG_REGION", region.encode())
            + _entry(b"TRACE_ON", trace_on.encode())
            + _name(b"msgId")
            + _I32.pack(id_bytes)
            + self._host
        )
        before_queue, before_offset = _name(b"queueId"), _name(b"queueOffset")
        before_key = _name(b"transactionId")
        length = _I32.pack
        word = Encoding.ROCKETMQ << 24

        def build(
            opaque: int, physical_offset: int, queue_id: int, queue_offset: int, uniq_key: str
        ) -> bytes:
            queue = b"%d" % queue_id
            offset = b"%d" % queue_offset
            key = uniq_key.encode()
            fields = b"".join(
                (
                    before_id,
                    b"%016X" % physical_offset,
                    before_queue,
                    length(len(queue)),
                    queue,
                    before_offset,
                    length(len(offset)),
                    offset,
                    before_key,
                    length(len(key)),
                    key,
                )
            )
            size = fixed.size + 4 + len(fields)
            head = fixed.pack(0, LanguageCode.PYTHON, version, opaque, FLAG_RESPONSE, 0)
            return b"".join((_WORDS.pack(size + 4, word | size), head, length(len(fields)), fields))

        return build


def _json_template(version: int, region: str, trace_on: str, ids: bytes, key: bytes) -> bytes:
    """A header to be filled in: ids, queue id, queue offset, key, opaque."""
    return (
        b'{"code":0,"extFields":{"MSG_REGION":%s,"TRACE_ON":%s,"msgId":"%s",'
        b'"queueId":"%%d","queueOffset":"%%d"%s},"flag":%d,'
        b'"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}'
        % (_to_json(region), _to_json(trace_on), ids, key, FLAG_RESPONSE, version)
    )


def _name(name: bytes) -> bytes:
    return _I16.pack(len(name)) + name


def _entry(name: bytes, value: bytes) -> bytes:
    return _name(name) + _I32.pack(len(value)) + value
