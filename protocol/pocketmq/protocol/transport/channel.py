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
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import structlog

from pocketmq.protocol.command import (
    VERSION_5_3_3,
    Command,
    Encoding,
)
from pocketmq.protocol.dispatch import Dispatcher, error_reply
from pocketmq.protocol.errors import ConnectionLostError
from pocketmq.protocol.frame import FrameDecoder
from pocketmq.protocol.peer_memory import PeerMemory
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.channel_output import ChannelOutput
from pocketmq.protocol.transport.passed_on import PassedOn
from pocketmq.protocol.transport.traffic import TRAFFIC
from pocketmq.runtime.addresses import address_text

log = structlog.get_logger()

HIGH_WATER_BYTES = 4 * 1024 * 1024
"""Unsent bytes above which a peer that connected to us is not served until it has read some."""

EARLY_BYTES = 4 * 1024
"""A client's high-water mark. A client never stops writing; but uvloop writes at once what exceeds
the mark, and anything less at the end of the turn."""

_SHORT_BYTES = 16 * 1024
"""A read up to this length may wait for the end of the loop's turn."""

FULL_READ_BYTES = 256_000
"""What uvloop reads at once. When it got as much, it asks the same socket again, up to 32 times,
before it looks at any other."""

_COMMAND_BYTES = 512
"""About what a request takes beside its body."""


class Channel(ChannelOutput, asyncio.Protocol):
    """One connection, used by clients and servers alike; requests may flow both ways.

    All writes made while the frames of one read are processed leave in one `transport.write`.
    Writes at other times leave together in the loop's next turn, except that a client's requests
    leave as soon as there are `EARLY_PARTS` buffers of them.

    Args:
        dispatcher: Answers what the peer asks.
        peers: The peer connected to us, and is one of these: what it may cost is bounded. The end
            that connected never stops reading, because otherwise both could wait for each other.
        encoding: Of our own requests, until the peer asks in another.
        version: Stamped on everything we send.
        on_open: Called when the connection is established.
        on_close: Called once when it has ended.
        credentials: Sign our own requests.
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
        super().__init__(encoding, version, peers, credentials)
        self.dispatcher = dispatcher
        self.frame_began_at: float | None = None
        self._on_open = on_open
        self._on_close = on_close
        self._put_off_bytes = 0
        """Of `_put_off`."""
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

    # -- what others use ------------------------------------------------------------------------

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
        self._decoder.forget()
        self.frame_began_at = None
        return unread

    def pass_back(self, data: bytes) -> None:
        """Send bytes of whoever took the peer over."""
        if self._transport is not None:
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

    def __str__(self) -> str:
        return f"channel {self.address}"

    # -- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True
        high_bytes = HIGH_WATER_BYTES if self._accepted else EARLY_BYTES
        self._transport.set_write_buffer_limits(high=high_bytes)
        self.address = _address(transport.get_extra_info("peername"))
        self.local_address = _address(transport.get_extra_info("sockname"))
        self._ends = (self.local_address, self.address)
        TRAFFIC.opened(self._ends, self._flow)
        self.last_active_at = self._loop.time()
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        if len(data) >= FULL_READ_BYTES and self._accepted:
            self.let_others_read()
        dispatcher = self.dispatcher
        if dispatcher.waits and self._accepted:
            if len(data) <= _SHORT_BYTES:
                self._untaken += 1
                dispatcher.put_off(self, data)
                return
            if self._untaken:
                dispatcher.process_reads()
        self.take(data)

    def take(self, data: bytes) -> None:
        """Process bytes that were read."""
        if self._untaken:
            self._untaken -= 1
        self._flow.read += len(data)
        if not self._knows_far:
            self._knows_far = True
            self._find_far()
        if self._far is not None:
            self._flow.near_read += len(data)
        self.last_active_at = self._loop.time()
        decoder = self._decoder
        commands = decoder.feed(data)
        if commands and (len(commands) > 1 or self._paused or not self._gathers(commands)):
            self._process(commands)
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
            self.frame_began_at = self.last_active_at

    def pause_writing(self) -> None:
        if self._taker is not None:
            self._taker.peer_reads(on=False)
            return
        transport = self._transport
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
            if self._out_bytes > HIGH_WATER_BYTES:
                self._flush()
            if self._paused:
                self._put_off += commands[i:]
                self._put_off_bytes += sum(len(each.body) + _COMMAND_BYTES for each in commands[i:])
                return
            command = commands[i]
            if command.flag & 1:
                if not self._calls.complete(command):
                    log.debug("reply.dropped", peer=self.address, reply=str(command))
                i += 1
                continue
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
        if self._untaken and not self._processing:
            self.dispatcher.process_reads()
        self._settle()

    def _settle(self) -> None:
        """Process what this peer asked before, so that its requests keep their order."""
        if self._awaited:
            self.dispatcher.process_gathered()


def _address(name: Any) -> str:
    if isinstance(name, tuple):
        return address_text(name[0], name[1])
    return str(name or "?")
