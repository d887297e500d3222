"""`ChannelOutput`: what one end of a connection sends, and when it is written.

Replies and requests are framed into a list of buffers, which leave in one write: a system call for
each would cost more than the rest of a small request.

    while a read is processed      replies gather, and leave when it has been
    at any other time              what is sent leaves in the loop's next turn, together
    a client with EARLY_PARTS      writes at once, so that the peer begins while it makes more

`Channel` is the whole connection: it reads, and gives what it reads to processors.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import structlog

from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.command import FLAG_ONEWAY, Body, Buffer, Command, Encoding
from pocketmq.protocol.dispatch import Reply, error_reply
from pocketmq.protocol.frame import encode_frame, encode_request
from pocketmq.protocol.header import Header
from pocketmq.protocol.transport.peer_memory import PeerShare
from pocketmq.protocol.transport.traffic import TRAFFIC, Flow

log = structlog.get_logger()

EARLY_PARTS = 32
"""When a client's requests of one turn of the loop come to so many buffers (most are a head and a
body), they are written, so that the peer works on them while the client makes the next."""


class ChannelOutput:
    """The writing half of a `Channel`.

    Args:
        encoding: Of our own requests, until the peer asks in another.
        version: Stamped on everything we send.
        accepted: The peer connected to us; such an end never writes early.
    """

    _share: PeerShare | None
    """What the peer costs, if it connected to us."""

    def __init__(self, encoding: Encoding, version: int, *, accepted: bool) -> None:
        self.encoding = encoding
        self.version = version
        self.address = ""
        self.local_address = ""
        self.last_active_at = 0.0
        self._accepted = accepted
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._flow = TRAFFIC.of(self._loop)
        self._ends = ("", "")
        self._far: Flow | None = None
        """The peer's loop, when it is in this process; what it sent first settles that."""
        self._knows_far = False
        self._out: list[Buffer] = []
        self._out_bytes = 0
        """Of answers in `_out`; what goes out in other ways is not counted."""
        self._processing = False
        """Frames of a read are being processed: their replies gather."""
        self._paused = False
        """The peer does not read what is sent, so nothing more is read from it."""

    @property
    def is_open(self) -> bool:
        """False once the connection is closing or lost."""
        return self._transport is not None and not self._transport.is_closing()

    def write_to(self, transport: asyncio.Transport) -> None:
        """Take this in place of the transport of `connection_made`, which it leads to."""
        if self._transport is not None:
            self._transport = transport

    def _append_reply(self, request: Command, reply: Reply) -> None:
        if reply is None or request.flag & FLAG_ONEWAY:
            return
        if type(reply) is bytes:
            self._out.append(reply)
            self._out_bytes += len(reply)
            return
        parts = self._framed(request, cast("Command", reply))
        self._out += parts
        self._out_bytes += 4 + int.from_bytes(parts[0][:4])

    def _framed(self, request: Command, response: Command) -> list[Buffer]:
        self._stamp(response)
        try:
            return encode_frame(response)
        except Exception as exc:  # noqa: BLE001 - too long, or a text that no codec can write
            error = error_reply(self, request, exc)
            self._stamp(error)
            return encode_frame(error)

    def _stamp(self, command: Command) -> None:
        command.version = self.version
        command.language = LanguageCode.PYTHON

    def _send(
        self, header: Header, body: Body | msgspec.Struct, code: int, opaque: int, flag: int
    ) -> None:
        encoding = self.encoding
        if isinstance(body, msgspec.Struct):
            body = encode_body(body, encoding)
        self._send_parts(encode_request(encoding, header, body, code, opaque, flag, self.version))

    def _send_parts(self, parts: list[Buffer]) -> None:
        """Send a frame of ours."""
        self._write(parts)
        if len(self._out) >= EARLY_PARTS and not (self._accepted or self._processing):
            self._flush()

    def _write(self, parts: list[Any]) -> None:
        out = self._out
        if not out and not self._processing:
            self._loop.call_soon(self._flush)
        out += parts

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        self._out = []
        self._out_bytes = 0
        transport = self._transport
        if transport is None:
            return
        self.last_active_at = self._loop.time()
        self._put(transport, out[0] if len(out) == 1 else b"".join(out))

    def _put(self, transport: asyncio.Transport, data: Buffer) -> None:
        TRAFFIC.writes += 1
        far = self._far if self._knows_far else self._find_far()
        if far is not None:
            sent = self._flow.sent
            sent[far] = sent.get(far, 0) + len(data)
        transport.write(data)
        share = self._share
        if share is None:
            return
        unsent = transport.get_write_buffer_size()
        if self._paused and unsent > share.limit_bytes:
            log.warning("peer.overflowed", peer=self.address, unsent=unsent)
            transport.abort()
        elif unsent or share.noted_bytes:
            share.weigh()

    def _find_far(self) -> Flow | None:
        self._far = TRAFFIC.far_end(self._ends)
        return self._far
