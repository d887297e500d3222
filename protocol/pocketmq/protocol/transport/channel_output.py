"""`ChannelOutput`: requests and replies that one end of a connection sends, and when they leave.

Replies and requests are framed into a list of buffers, which leave in one write: a system call for
each would cost more than the rest of a small request.

    while a read is processed      replies gather, and leave when it has been
    at any other time              what is sent leaves in the loop's next turn, together
    a client with EARLY_PARTS      writes at once, so that the peer begins while it makes more

`Channel` is the whole connection: it reads, and gives what it reads to processors.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import msgspec
import structlog

from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.command import FLAG_ONEWAY, Body, Buffer, Command, Encoding
from pocketmq.protocol.dispatch import Reply, error_reply
from pocketmq.protocol.errors import ConnectionLostError, FrameError
from pocketmq.protocol.frame import encode_frame, encode_request, encode_signed
from pocketmq.protocol.header import Header
from pocketmq.protocol.peer_memory import GRAIN_BYTES, PeerMemory
from pocketmq.protocol.send_template import SendTemplate
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.timed_calls import TimedCalls
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
        peers: The peer connected to us, and is one of these; such an end never writes early.
        credentials: Sign our own requests; those to whoever connected to us have none.
    """

    def __init__(
        self,
        encoding: Encoding,
        version: int,
        peers: PeerMemory | None,
        credentials: Credentials | None,
    ) -> None:
        self.encoding = encoding
        self.version = version
        self.address = ""
        self.local_address = ""
        self.last_active_at = 0.0
        self.credentials = credentials
        self._accepted = peers is not None
        self._peers = peers
        self._kept_bytes = 0
        """What the role keeps for this peer: held pulls."""
        self._noted_bytes = 0
        """What `_peers` knows of."""
        self.is_open = False
        """Whether what is sent has a chance to arrive: made, and neither closed nor lost."""
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._calls = TimedCalls(self._loop)
        self._awaited = 0
        """Requests of this peer that the dispatcher has gathered and not yet answered."""
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

    def write_to(self, transport: asyncio.Transport) -> None:
        """Take this in place of the transport of `connection_made`, which it leads to."""
        if self._transport is not None:
            self._transport = transport

    def request(
        self,
        header: Header,
        body: Body | msgspec.Struct = b"",
        *,
        code: int | None = None,
        timeout_s: float = 3.0,
    ) -> asyncio.Future[Command]:
        """Send a request; the future's result is the response with its number (E-5), any code.

        Check `Command.code` of the response, then read it by `Command.header`. Cancelling the
        future forgets the call; a response that comes later is dropped.

        Raises (through the future):
            RequestTimeoutError: no answer within `timeout_s` real seconds.
            ConnectionLostError: the connection ended first.
        """
        if not self.is_open:
            closed: asyncio.Future[Command] = self._loop.create_future()
            closed.set_exception(ConnectionLostError(self.address))
            return closed
        opaque, future = self._calls.begin(self.address, type(header), timeout_s)
        try:
            self._send(header, body, header.CODE if code is None else code, opaque, 0)
        except FrameError:
            self._calls.forget(opaque)
            raise
        return future

    def request_alike(
        self, template: SendTemplate, born_ms: int, properties: str, body: Buffer, timeout_s: float
    ) -> asyncio.Future[Command]:
        """`request` with a header of a template, while the channel is open; in half the time.

        Args:
            template: Of encoding 77, and with this channel's version; it cannot be signed.
            born_ms: Of the message.
            properties: Of the message.
            body: Not empty.
            timeout_s: Real seconds for the answer.
        """
        opaque, future = self._calls.begin(self.address, template.kind, timeout_s)
        try:
            head = template.head(opaque, born_ms, properties, len(body))
        except (FrameError, UnicodeEncodeError):
            self._calls.forget(opaque)
            raise
        self._send_parts([head, body])
        return future

    def oneway(
        self, header: Header, body: Body | msgspec.Struct = b"", *, code: int | None = None
    ) -> None:
        """Send a request that gets no response; dropped silently when the connection is closed."""
        if self.is_open:
            self._send(header, body, header.CODE if code is None else code, 0, FLAG_ONEWAY)

    def reply(self, request: Command, response: Command | bytes) -> None:
        """Send the response to `request`, whose processor returned None earlier."""
        if request.flag & FLAG_ONEWAY or not self.is_open:
            return
        self._write([response] if isinstance(response, bytes) else self._framed(request, response))

    def answer(self, requests: Sequence[Command], replies: Sequence[Reply]) -> None:
        """Send the replies to requests that the dispatcher had gathered, in one write.

        A reply of None comes later, by `reply`.
        """
        self._awaited -= len(requests)
        reply = replies[0]
        if (
            type(reply) is not bytes
            or len(replies) > 1
            or self._out
            or self._processing
            or requests[0].flag & FLAG_ONEWAY
        ):
            self.reply_all(requests, replies)
            return
        if self.is_open:
            self._put(reply)

    def reply_all(self, requests: Sequence[Command], replies: Sequence[Reply]) -> None:
        """`reply` to several requests in one write: now, or at the end of the read in progress."""
        if not self.is_open:
            return
        out = self._out
        size_bytes = 0
        for request, reply in zip(requests, replies, strict=True):
            if type(reply) is bytes and not request.flag & FLAG_ONEWAY:
                out.append(reply)
                size_bytes += len(reply)
            else:
                self._append_reply(request, reply)
        self._out_bytes += size_bytes
        if not self._processing:
            self._flush()

    def abort(self) -> None:
        """Close at once; buffered bytes are dropped."""
        if self._transport is not None:
            self.is_open = False
            self._transport.abort()

    def keep(self, delta_bytes: int) -> None:
        """The role has come to hold more, or less, for this peer."""
        self._kept_bytes += delta_bytes
        if abs(self._kept_bytes - self._noted_bytes) > GRAIN_BYTES or not self._kept_bytes:
            self._weigh()

    @property
    def waiting_bytes(self) -> int:
        """What waits here for the peer or of it, in memory."""
        raise NotImplementedError  # `Channel` knows what is read and not processed

    # -- inside ---------------------------------------------------------------------------------

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
        signer, version = self.credentials, self.version
        self._send_parts(
            encode_request(encoding, header, body, code, opaque, flag, version)
            if signer is None
            else encode_signed(
                encoding, signer.signed(header, body, encoding), body, code, opaque, flag, version
            )
        )

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
        if self._transport is None:
            return
        self.last_active_at = self._loop.time()
        self._put(out[0] if len(out) == 1 else b"".join(out))

    def _put(self, data: Buffer) -> None:
        transport = self._transport
        assert transport is not None
        TRAFFIC.writes += 1
        far = self._far if self._knows_far else self._find_far()
        if far is not None:
            sent = self._flow.sent
            sent[far] = sent.get(far, 0) + len(data)
        transport.write(data)
        peers = self._peers
        if peers is None:
            return
        unsent = transport.get_write_buffer_size()
        if self._paused and unsent > peers.budget().connection_bytes:
            log.warning("peer.overflowed", peer=self.address, unsent=unsent)
            self.abort()
        elif unsent or self._noted_bytes:
            self._weigh()

    def _weigh(self) -> None:
        """Tell what the connection holds, when it has become another amount."""
        if self._peers is None:
            return
        waiting_bytes = self.waiting_bytes
        if abs(waiting_bytes - self._noted_bytes) > GRAIN_BYTES or not waiting_bytes:
            self._noted_bytes = waiting_bytes
            self._peers.note(self, waiting_bytes)

    def _find_far(self) -> Flow | None:
        self._far = TRAFFIC.far_end(self._ends)
        return self._far
