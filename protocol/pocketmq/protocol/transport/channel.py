"""`Channel`: one end of one connection. It turns bytes into commands, and replies into bytes.

One read of the socket often brings many frames. They are all processed before anything is written,
and their replies leave in one write; a system call for each reply would cost more than the rest of
a small request:

    read      | SEND #1 | SEND #2 | PULL #3 | SEN        the fourth frame has only begun
    process     #1 and #2 go to their processor together (it stores them in one append),
                then #3; its pull finds nothing and is held: None, no reply now
    write       reply #1, reply #2                       one write
    later       reply #3, by `Channel.reply`, when a message has arrived or 15 s are over

A peer that connected to us gets one read in a turn of the loop, however fast it sends. Memory that
one peer can take is bounded: while `HIGH_WATER_BYTES` of replies are unsent, nothing more is read
from it; at `budget.connection_bytes` the connection is closed. What all accepted peers of a
listener have waiting is added up in a `PeerMemory`, which closes the heaviest.

A client calls `request` (a future) or `oneway`; a server gives a `Dispatcher`, whose processors
return a reply or None. Deadlines of requests run on real time, not on the protocol's `Clock`.

When what is sent leaves:

    while a read is processed      replies gather, and leave when it has been
    at any other time              what is sent leaves in the loop's next turn, together
    a client with EARLY_PARTS      writes at once, so that the peer begins while it makes more
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import structlog

from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.command import (
    FLAG_ONEWAY,
    VERSION_5_3_3,
    Body,
    Buffer,
    Command,
    Encoding,
)
from pocketmq.protocol.dispatch import Dispatcher, Reply, error_reply
from pocketmq.protocol.errors import ConnectionLostError, FrameError
from pocketmq.protocol.frame import FrameDecoder, encode_frame, encode_request, encode_signed
from pocketmq.protocol.header import Header
from pocketmq.protocol.peer_memory import GRAIN_BYTES, PeerMemory
from pocketmq.protocol.send_template import SendTemplate
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.passed_on import PassedOn
from pocketmq.protocol.transport.timed_calls import TimedCalls
from pocketmq.protocol.transport.tls_binding import tls_binding
from pocketmq.protocol.transport.traffic import TRAFFIC, Flow
from pocketmq.runtime.addresses import address_text

log = structlog.get_logger()

HIGH_WATER_BYTES = 4 * 1024 * 1024
"""Unsent bytes above which a peer that connected to us is not served until it has read some."""

EARLY_BYTES = 4 * 1024
"""A client's high-water mark. A client never stops writing; but uvloop writes at once what exceeds
the mark, and anything less at the end of the turn."""

REQUEST_TIMEOUT_S = 60.0
"""For callers that name no limit: however slow the machine is, they need the answer."""

_SHORT_BYTES = 16 * 1024
"""A read up to this length may wait for the end of the loop's turn."""

FULL_READ_BYTES = 256_000
"""What uvloop reads at once. When it got as much, it asks the same socket again, up to 32 times,
before it looks at any other."""

_COMMAND_BYTES = 512
"""About what a request takes beside its body."""

EARLY_PARTS = 32
"""When a client's requests of one turn of the loop come to so many buffers (most are a head and a
body), they are written, so that the peer works on them while the client makes the next."""


class Channel(asyncio.Protocol):
    """One connection, used by clients and servers alike; requests may flow both ways.

    All writes made while the frames of one read are processed leave in one `transport.write`.
    Writes at other times leave together in the loop's next turn, except that a client's requests
    leave as soon as there are `EARLY_PARTS` buffers of them.

    Args:
        dispatcher: Answers what the peer asks.
        peers: The peer connected to us, and is one of these: what it may cost is bounded, and this
            end never writes early. The end that connected never stops reading, because otherwise
            both could wait for each other.
        encoding: Of our own requests, until the peer asks in another.
        version: Stamped on everything we send.
        on_open: Called when the connection is established.
        on_close: Called once when it has ended.
        credentials: Sign our own requests; those to whoever connected to us have none.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        peers: PeerMemory | None = None,
        encoding: Encoding = Encoding.MSGPACK,
        version: int = VERSION_5_3_3,
        on_open: Callable[[Channel], None] | None = None,
        on_close: Callable[[Channel], None] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.dispatcher = dispatcher
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
        self.frame_began_at: float | None = None
        self._on_open = on_open
        self._on_close = on_close
        self._put_off_bytes = 0
        """Of `_put_off`."""
        # The budget bounds the headers of peers that connected to us; answers to our own requests
        # may have longer ones.
        self._decoder = (
            FrameDecoder()
            if peers is None
            else FrameDecoder(max_header_bytes=peers.budget().header_bytes)
        )
        self._untaken = 0
        """Reads of this peer that the dispatcher has put off."""
        self._put_off: list[Command] = []
        """Commands already read, to be processed when the peer has read its replies."""
        self._taker: PassedOn | None = None
        """Gets what the peer sends, which are no frames."""
        self._close_listeners: list[Callable[[Channel], None]] = []
        self.closed: asyncio.Future[None] = self._loop.create_future()

    # -- sending --------------------------------------------------------------------------------

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
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> asyncio.Future[Command]:
        """Send a request; the future's result is the response with its number (E-5), any code.

        Check `Command.code` of the response, then read it by `Command.header`. Cancelling the
        future forgets the call; a response that comes later is dropped.

        Raises (through the future):
            RequestTimeoutError: no answer within `timeout_s` real seconds.
            ConnectionLostError: the connection ended first.
        """
        # Fail the future instead of raising, so that callers handle every error where they await.
        if not self.is_open:
            closed: asyncio.Future[Command] = self._loop.create_future()
            closed.set_exception(ConnectionLostError(self.address))
            return closed
        # Register the call before sending: the answer may come at once.
        opaque, future = self._calls.begin(self.address, type(header), timeout_s)
        try:
            self._send(header, body, header.CODE if code is None else code, opaque, 0)
        except FrameError:
            # Nothing was sent, so no answer will come.
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
            # Only a single answer with nothing before it is written directly.
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
        # While a read is processed, more answers follow, and all are sent together.
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
        # Report only changes above GRAIN_BYTES: held pulls come and go by the thousand.
        if abs(self._kept_bytes - self._noted_bytes) > GRAIN_BYTES or not self._kept_bytes:
            self._weigh()

    # -- the connection -------------------------------------------------------------------------

    @property
    def waiting_bytes(self) -> int:
        """What waits here for the peer or of it, in memory."""
        transport = self._transport
        unsent = 0 if transport is None else transport.get_write_buffer_size()
        unread = self._decoder.pending_bytes + self._put_off_bytes
        return unsent + self._out_bytes + unread + self._kept_bytes

    @property
    def unfinished(self) -> bytes:
        """The beginning of a frame that has come, and has not ended."""
        # Process the reads that were put off first: they may complete a frame or begin one.
        if self._untaken:
            self.dispatcher.process_reads()
        return self._decoder.pending

    def close(self) -> None:
        """Close, once all requests read so far are answered and all bytes are sent."""
        self._finish()
        if self._transport is not None:
            self._flush()
            self.is_open = False
            self._transport.close()

    def add_close_listener(self, listener: Callable[[Channel], None]) -> None:
        """Call `listener` once when this connection ends."""
        self._close_listeners.append(listener)

    def hand_over(self, taker: PassedOn) -> bytes:
        """What the peer sends from now on is the taker's; what it has sent is returned."""
        self._taker = taker
        unread = self._decoder.pending
        # The taker speaks another protocol and reads these bytes itself.
        self._decoder.forget()
        self.frame_began_at = None
        return unread

    def pass_back(self, data: bytes) -> None:
        """Send bytes of whoever took the peer over."""
        if self._transport is not None:
            # This counts as activity: idle connections that were taken over are closed, too.
            self.last_active_at = self._loop.time()
            self._transport.write(data)

    def hold_reading(self, *, held: bool) -> None:
        """Read nothing more of a peer that was handed over, or read on."""
        self._paused = held
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if held:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def tls_binding(self) -> bytes:
        """What both ends of this TLS connection know, and nobody else; empty in plaintext."""
        return tls_binding(self._transport)

    def __str__(self) -> str:
        return f"channel {self.address}"

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True
        # A client's high-water mark is low, so that larger writes leave at once.
        high_bytes = HIGH_WATER_BYTES if self._accepted else EARLY_BYTES
        self._transport.set_write_buffer_limits(high=high_bytes)
        self.address = _address(transport.get_extra_info("peername"))
        self.local_address = _address(transport.get_extra_info("sockname"))
        self._ends = (self.local_address, self.address)
        # A manual clock has to know about bytes under way on this connection.
        TRAFFIC.opened(self._ends, self._flow)
        self.last_active_at = self._loop.time()
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        # A full read means that more is waiting: other connections get a turn first.
        if len(data) >= FULL_READ_BYTES and self._accepted:
            self.let_others_read()
        dispatcher = self.dispatcher
        # Reads of one turn are put off and processed together, unless they are large.
        if dispatcher.waits and self._accepted:
            if len(data) <= _SHORT_BYTES:
                self._untaken += 1
                dispatcher.put_off(self, data)
                return
            # A large read is processed now, so what was put off before it comes first.
            if self._untaken:
                dispatcher.process_reads()
        self.take(data)

    def take(self, data: bytes) -> None:
        """Process bytes that were read."""
        if self._untaken:
            self._untaken -= 1
        self._flow.read += len(data)
        # If the peer is in this process, too, its unread bytes are counted.
        if not self._knows_far:
            self._knows_far = True
            self._find_far()
        if self._far is not None:
            self._flow.near_read += len(data)
        self.last_active_at = self._loop.time()
        decoder = self._decoder
        commands = decoder.feed(data)
        # A single request may be gathered with those of other peers.
        if commands and (len(commands) > 1 or self._paused or not self._gathers(commands)):
            self._process(commands)
        # The usual case: the read ended with a whole frame.
        if decoder.is_between:
            self.frame_began_at = None
            if self._noted_bytes:
                self._weigh()
            return
        if decoder.too_long:
            self._refuse_too_long()
        if decoder.pending_bytes or self._noted_bytes:
            self._weigh()
        if decoder.failure is not None:
            self._read_no_frame(data)
        elif self._paused or not decoder.pending_bytes:
            self.frame_began_at = None  # while paused, it is we who do not read on
        elif self.frame_began_at is None or commands:
            # A new frame began with this read, so its time limit starts now.
            self.frame_began_at = self.last_active_at

    def pause_writing(self) -> None:
        # The peer does not read: the other end of its connection has to pause, too.
        if self._taker is not None:
            self._taker.peer_reads(on=False)
            return
        transport = self._transport
        # Only peers that connected to us are paused; a client must go on reading its answers.
        if self._accepted and transport is not None and not transport.is_closing():
            self._paused = True
            self.frame_began_at = None
            transport.pause_reading()

    def resume_writing(self) -> None:
        if self._taker is not None:
            self._taker.peer_reads(on=True)
            return
        if not self._paused:
            return
        self._paused = False
        # Reset first: processing may put off more requests.
        put_off, self._put_off, self._put_off_bytes = self._put_off, [], 0
        if put_off:
            self._process(put_off)
        self._weigh()
        transport = self._transport
        if not self._paused and transport is not None and not transport.is_closing():
            transport.resume_reading()

    def eof_received(self) -> bool:
        self._finish()  # the transport closes next, and can still send
        self.is_open = False
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """asyncio calls it: the connection ended, by us or by the peer, or the peer's process died.

        Calls under way fail, and who listens is told: a broker forgets the client, a nameserver the
        broker. A peer whose machine vanished is noticed by those who wait for its heartbeats.
        """
        # Requests that were read before the connection ended are still processed.
        if self._untaken:
            self.dispatcher.process_reads()
        self.is_open = False
        self._transport = None
        TRAFFIC.closed(self._ends)
        self._out.clear()
        self._put_off.clear()
        if self._peers is not None:
            self._peers.forget(self)
            self._peers = None
        if self._taker is not None:
            self._taker.peer_lost()
        self._calls.fail_all(ConnectionLostError(self.address))
        if not self.closed.done():
            self.closed.set_result(None)
        listeners, self._close_listeners = self._close_listeners, []
        for listener in listeners:
            listener(self)
        if self._on_close is not None:
            self._on_close(self)

    # -- inside ---------------------------------------------------------------------------------

    def _process(self, commands: list[Command]) -> None:
        # While this is set, answers are gathered to be sent in one write.
        self._processing = True
        try:
            self._dispatch(commands)
        finally:
            self._processing = False
        self._flush()

    def _dispatch(self, commands: list[Command]) -> None:
        dispatcher = self.dispatcher
        batch = dispatcher.batch
        i, n = 0, len(commands)
        while i < n:
            # Flush early: the answers to many requests must not all wait in memory.
            if self._out_bytes > HIGH_WATER_BYTES:
                self._flush()
            # The peer does not read its answers: its requests wait here and count as its memory.
            if self._paused:
                self._put_off += commands[i:]
                self._put_off_bytes += sum(len(each.body) + _COMMAND_BYTES for each in commands[i:])
                return
            command = commands[i]
            # A response: only our own calls await one (E-5).
            if command.flag & 1:
                if not self._calls.complete(command):
                    log.debug("reply.dropped", peer=self.address, reply=str(command))
                i += 1
                continue
            # Answers use the encoding of the peer's latest request.
            self.encoding = command.encoding
            code = command.code
            if code in batch:
                j = i + 1
                while j < n and commands[j].code == code and not commands[j].flag & 1:
                    j += 1
                self._awaited += j - i
                dispatcher.gather(self, commands[i:j], self._loop.call_soon)
                i = j
            else:
                # Earlier requests come first: a pull sent after a send must find its message.
                self._settle()
                self._append_reply(command, dispatcher.process(self, command))
                i += 1

    def _read_no_frame(self, data: bytes) -> None:
        """The peer sends something else than frames."""
        decoder, http2 = self._decoder, self.dispatcher.http2
        if self._taker is not None:
            self._taker.peer_sent(data)
        elif self._accepted and http2 is not None and decoder.speaks_http2():
            http2(self)
        else:
            log.warning("frame.refused", peer=self.address, reason=str(decoder.failure))
            self.close()

    def _refuse_too_long(self) -> None:
        """Answer requests whose headers were not kept."""
        refused, self._decoder.too_long = self._decoder.too_long, []
        for each in refused:
            log.warning("header.refused", peer=self.address, reason=str(each.error))
            # A response is not answered, even if its header was too long.
            if not each.request.flag & 1:
                self.reply(each.request, error_reply(self, each.request, each.error))

    def _gathers(self, commands: list[Command]) -> bool:
        """Have the one request of a read answered with those of other peers, if its kind is."""
        command = commands[0]
        if command.flag & 1 or command.code not in self.dispatcher.batch:
            return False
        self.encoding = command.encoding
        self._awaited += 1
        self.dispatcher.gather(self, commands, self._loop.call_soon)
        return True

    def let_others_read(self) -> None:
        """End this peer's turn: who sends faster than we read would hold all others up."""
        transport = self._transport
        if transport is not None and not self._paused and not transport.is_closing():
            transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        transport = self._transport
        if transport is not None and not self._paused and not transport.is_closing():
            transport.resume_reading()

    def _finish(self) -> None:
        """Process all that was read of this peer."""
        # Within the processing of a read this would recurse.
        if self._untaken and not self._processing:
            self.dispatcher.process_reads()
        self._settle()

    def _settle(self) -> None:
        """Process what this peer asked before, so that its requests keep their order."""
        if self._awaited:
            self.dispatcher.process_gathered()

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
            # A signature covers the header's fields and the body (Y-10).
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
        # The first write of a turn schedules the flush, which sends the later ones, too.
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
        # The transport buffers what the socket does not take, which counts as the peer's memory.
        transport.write(data)
        peers = self._peers
        if peers is None:
            return
        unsent = transport.get_write_buffer_size()
        # Too much waits for a peer that does not read: close its connection.
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


def _address(name: Any) -> str:
    if isinstance(name, tuple):
        return address_text(name[0], name[1])
    return str(name or "?")
