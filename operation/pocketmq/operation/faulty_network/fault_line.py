"""`FaultLine`: stands between a socket and its channel, and does what fault rules say.

While no rule is there, bytes go through untouched. While there is one, both directions are cut into
frames, and each request is shown to the rules. A line that is parted from its peer holds frames
back; they arrive when the partition is cleared, as TCP's next tries would have it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Protocol, cast

from pocketmq.operation.faults.cutter import Frame, FrameCutter
from pocketmq.operation.faults.rule_book import ROLE_CODES, RuleBook, is_own
from pocketmq.protocol.command import Command
from pocketmq.protocol.frame import encode_frame
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.line_transport import LineTransport

MOST_HELD_BYTES = 16 * 1024 * 1024
"""Of one line while it is parted; with more its connection is reset."""

MOST_DROPPED = 10_000
"""Answers of one line that are waited for in order to be lost."""

_RESET = struct.pack("ii", 1, 0)


class Inner(Protocol):
    """What a line stands in front of: a channel."""

    @property
    def unfinished(self) -> bytes:
        """The beginning of a frame that it has and that is not complete."""
        ...

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class FaultLine(asyncio.Protocol):
    """One connection of a role.

    Args:
        inner: Reads what comes in.
        book: The role's rules.
        target: Address that was connected to; empty when the peer connected to us.
        always_cuts: The inner end writes parts of frames, as a proxy does.
    """

    def __init__(
        self, inner: Inner, book: RuleBook, target: str = "", *, always_cuts: bool = False
    ) -> None:
        self._inner = inner
        self._book = book
        self._target = target
        self._always_cuts = always_cuts
        self._transport: asyncio.Transport | None = None
        self._inner_transport: LineTransport | None = None
        self._in = FrameCutter() if always_cuts else None
        self._out = FrameCutter()
        self._dropped: dict[int, None] = {}
        """Numbers of requests whose answers are lost."""
        self._is_role = False
        """The peer that connected to us has shown itself to be one."""
        self._exempt: set[int] = set()
        """Numbers of requests of PocketMQ's own, whose answers pass a partition."""
        self._held_in: list[bytes] = []
        self._held_out: list[bytes] = []
        self._held_bytes = 0

    # -- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        # Listen first: the inner end may write at once, and a rule may be in force already.
        self._book.listen(self._changed)
        self._inner_transport = LineTransport(self._transport)
        self._choose_write()
        self._inner.connection_made(self._inner_transport)

    def data_received(self, data: bytes) -> None:
        # Without rules, as in production, frames are not examined.
        if self._always_cuts or self._book.is_armed:
            self._judge_incoming(data)
        elif self._in is None:
            self._inner.data_received(data)
        else:
            # The last rule is gone: pass the partial frame on before the new data.
            rest, self._in = self._in.rest(), None
            self._inner.data_received(rest + data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        # The book lives as long as the role, and would keep every connection that ever was.
        self._book.unlisten(self._changed)
        self._transport = None
        # From now on, what the inner end writes is dropped.
        self._choose_write()
        self._held_in.clear()
        self._held_out.clear()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # -- out --------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """What the inner end sends."""
        transport = self._transport
        if transport is None:
            return
        # After the last rule is gone, answers that are to be lost may still come.
        if not (self._always_cuts or self._book.is_armed or self._dropped):
            transport.write(data)
            return
        passed = []
        for frame in self._out.feed(data):
            # Look for losses first: a partition only holds frames, whereas a lost answer is gone.
            if self._is_lost_on_leaving(frame.command):
                continue
            is_exempt = self._is_exempt(frame.command)  # forgets it, parted or not
            if self._is_parted and not is_exempt:
                self._hold(self._held_out, frame.raw)
            else:
                passed.append(frame.raw)
        if passed and self._transport is not None:
            transport.write(b"".join(passed))

    def _is_lost_on_leaving(self, command: Command | None) -> bool:
        if command is None:
            return False
        # Rules are about requests; only the answer to a request that met `drop` is lost.
        if command.is_response:
            if command.opaque in self._dropped:
                del self._dropped[command.opaque]
                return True
            return False
        return self._book.meets(command, leaves=True) is not None

    # -- in ---------------------------------------------------------------------------------

    def _judge_incoming(self, data: bytes) -> None:
        # A rule has just been set: the channel may have the beginning of a frame already.
        if self._in is None:
            self._in = FrameCutter(self._inner.unfinished)
        for frame in self._in.feed(data):
            command = frame.command
            if command is not None and not command.is_response:
                # A connection does not say who the peer is, but its requests do.
                self._is_role = self._is_role or command.code in ROLE_CODES
                # Rules are also set and cleared over this port: those requests and answers always
                # pass.
                if is_own(command.code) and not command.is_oneway:
                    self._exempt.add(command.opaque)
            # Answers to our own requests are held, too: a partition cuts both directions.
            if self._is_parted and not (
                command is not None and not command.is_response and is_own(command.code)
            ):
                self._hold(self._held_in, frame.raw)
            else:
                self._pass_in(frame)
            # A rule has reset it: frames behind that one were never received.
            if self._transport is None or self._transport.is_closing():
                return

    def _pass_in(self, frame: Frame) -> None:
        command = frame.command
        inner = self._inner
        # The channel refuses unreadable frames.
        if command is None or command.is_response:
            inner.data_received(frame.raw)
            return
        rule = self._book.meets(command, leaves=False)
        if rule is None:
            inner.data_received(frame.raw)
            return
        match rule.do:
            case "fail":
                self._refuse(command, int(rule.with_code), rule.remark)
            case "delay":
                loop = asyncio.get_running_loop()
                # Network delays use the loop's real time, and never a manual clock.
                loop.call_later(rule.delay_ms / 1000, self._arrive_late, frame.raw)
            case "drop":
                # The request is processed and only its answer is lost. The mapping is bounded, as a
                # processor may never answer.
                if not command.is_oneway and len(self._dropped) < MOST_DROPPED:
                    self._dropped[command.opaque] = None
                inner.data_received(frame.raw)
            case "duplicate":
                inner.data_received(frame.raw)
                inner.data_received(frame.raw)
            case "reset":
                self._reset()
            case _:
                pass  # lost

    def _arrive_late(self, raw: bytes) -> None:
        # The connection may have ended while the request was on its way.
        if self._transport is not None and not self._transport.is_closing():
            self._inner.data_received(raw)

    def _refuse(self, request: Command, code: int, remark: str) -> None:
        if self._transport is not None and not request.is_oneway:
            # Write past the partition and the rules, which are not about this answer.
            self._transport.write(b"".join(encode_frame(request.reply(code=code, remark=remark))))

    def _reset(self) -> None:
        transport = self._transport
        if transport is None:
            return
        found = transport.get_extra_info("socket")
        # Unix sockets know no RST, and in tests there may be no socket at all.
        if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
            # Without this option the kernel would send FIN, which peers handle better than RST.
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()

    # -- partitions -------------------------------------------------------------------------

    @property
    def _is_parted(self) -> bool:
        book = self._book
        if self._target:
            # A peer that we dialled is known by its address; one that dialled us has an arbitrary
            # port.
            return self._target in book.cut_addresses
        return book.cuts_clients and not self._is_role

    def _is_exempt(self, command: Command | None) -> bool:
        if command is None or not command.is_response or command.opaque not in self._exempt:
            return False
        self._exempt.discard(command.opaque)
        return True

    def _hold(self, held: list[bytes], raw: bytes) -> None:
        held.append(raw)
        self._held_bytes += len(raw)
        # In a real network, too, a full window ends in a broken connection.
        if self._held_bytes > MOST_HELD_BYTES:
            self._reset()

    def _choose_write(self) -> None:
        """While there is no rule, the inner end writes to the socket directly."""
        transport = self._transport
        is_free = not (self._always_cuts or self._book.is_armed or self._dropped)
        inner = self._inner_transport
        if inner is not None:
            inner.write_to(transport.write if is_free and transport is not None else self.write)

    def _changed(self) -> None:
        self._choose_write()
        if self._is_parted or not (self._held_in or self._held_out):
            # The partition still holds, or there is nothing to send on.
            return
        # Reset first: other rules may hold what the inner end answers.
        incoming, self._held_in = self._held_in, []
        outgoing, self._held_out = self._held_out, []
        self._held_bytes = 0
        # Send what was held before anything new.
        if self._transport is not None and outgoing:
            self._transport.write(b"".join(outgoing))
        for raw in incoming:
            if self._transport is not None and not self._transport.is_closing():
                self._inner.data_received(raw)


class ChannelLine(FaultLine):
    """The line of a channel, which stands aside until there is a rule: nothing is called then.

    Args:
        channel: Reads what comes in.
        book: The role's rules.
        target: Address that was connected to; empty when the peer connected to us.
    """

    def __init__(self, channel: Channel, book: RuleBook, target: str) -> None:
        super().__init__(channel, book, target)
        self._channel = channel
        self._is_aside = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        # While the line stands aside, it gets no `connection_lost`.
        self._channel.add_close_listener(self._ended)
        # Without rules the channel reads the socket by itself: a line between costs each message.
        if self._transport is not None and not self._book.is_armed:
            self._is_aside = True
            self._transport.set_protocol(self._channel)
            self._channel.write_to(self._transport)

    def _ended(self, _channel: Channel) -> None:
        self._book.unlisten(self._changed)
        self._transport = None

    def _changed(self) -> None:
        if self._is_aside and self._book.is_armed:
            self._is_aside = False
            if self._transport is not None and self._inner_transport is not None:
                # asyncio calls the present protocol, so a rule acts on the next bytes.
                self._transport.set_protocol(self)
                self._channel.write_to(self._inner_transport)
        # Last, when the line is in its place: it chooses where the inner end writes.
        super()._changed()
