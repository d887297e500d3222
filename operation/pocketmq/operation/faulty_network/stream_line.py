"""`StreamLine`: a plain byte stream that a role opened, and that a partition can hold back.

A slave's connection to its master is one. While the role is parted from the other end nothing is
read, and what is written waits; both go on when the partition is cleared, unless somebody has
closed the connection meanwhile, because it was silent for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from pocketmq.operation.faults.rule_book import RuleBook
from pocketmq.protocol.transport.line_transport import LineTransport

MOST_HELD_BYTES = 1024 * 1024
"""Written while it is parted; with more the connection is aborted."""


class StreamLine(asyncio.Protocol):
    """Stands between a socket and the protocol that reads it.

    Args:
        inner: Reads the stream.
        book: The role's rules.
        target: Address that was connected to.
    """

    def __init__(self, inner: asyncio.Protocol, book: RuleBook, target: str) -> None:
        self._inner = inner
        self._book = book
        self._target = target
        self._transport: asyncio.Transport | None = None
        self._inner_transport: _StreamTransport | None = None
        self._is_parted = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        # Data goes directly to the inner end: replicated logs pass here, and no rule examines them.
        self.data_received = inner.data_received  # type: ignore[method-assign]

    # -- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner_transport = _StreamTransport(self._transport, self._may_read)
        self._book.listen(self._changed)
        # Look first: the role may be parted already, and the inner end may write at once.
        self._changed()
        self._inner.connection_made(self._inner_transport)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._book.unlisten(self._changed)
        # Later changes of the rules must find nothing to hold.
        self._transport = None
        self._held.clear()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # -- partitions -------------------------------------------------------------------------

    def _may_read(self) -> bool:
        return not self._is_parted

    def _changed(self) -> None:
        transport, inner = self._transport, self._inner_transport
        if transport is None or inner is None or transport.is_closing():
            return
        is_parted = self._target in self._book.cut_addresses
        was_parted, self._is_parted = self._is_parted, is_parted
        if is_parted:
            inner.write_to(self._hold)
            # Stop reading: the sender's window fills as over a cut line, and nothing is held here.
            transport.pause_reading()
            return
        # Switch before the held data is written, so that nothing new is held.
        inner.write_to(transport.write)
        if was_parted:
            held, self._held = self._held, []
            self._held_bytes = 0
            if held:
                transport.write(b"".join(held))
            # The inner end may itself have paused meanwhile.
            inner.resume_if_wanted()

    def _hold(self, data: bytes | bytearray | memoryview) -> None:
        self._held.append(bytes(data))
        self._held_bytes += len(data)
        if self._held_bytes > MOST_HELD_BYTES and self._transport is not None:
            # Endless writes into a partition would fill the memory.
            self._transport.abort()


class _StreamTransport(LineTransport):
    """Bytes are read while its user wants them, and no partition holds."""

    def __init__(self, transport: asyncio.Transport, may_read: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._may_read = may_read
        self._is_wanted = True

    def pause_reading(self) -> None:
        # Note this even while a partition has paused reading already.
        self._is_wanted = False
        super().pause_reading()

    def resume_reading(self) -> None:
        self._is_wanted = True
        self.resume_if_wanted()

    def resume_if_wanted(self) -> None:
        """Read on, unless the user has paused it or a partition holds."""
        if self._is_wanted and self._may_read():
            super().resume_reading()
