"""One slave's connection at its master: bytes in and out, around `ha_master.SlaveLink`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

import structlog

from pocketmq.broker.replication.ha_frames import HaStreamError, ReportReader, encode_head
from pocketmq.broker.replication.ha_master import LogBounds, SlaveLink, Slice
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.store import MessageStore
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

_BYTES_PER_TURN: Final = 1024 * 1024
"""So much is sent before other connections have their turn."""
_WRITE_BUFFER_BYTES: Final = 512 * 1024


class SlaveConnection(asyncio.Protocol):
    """Sends the log, takes reports.

    Args:
        store: whose log is sent.
        rules: sizes and times.
        clock: the times.
        opened: told when it is open.
        acked: told when the slave has more.
        closed: told when it has ended.
    """

    def __init__(
        self,
        store: MessageStore,
        rules: HaRules,
        clock: Clock,
        opened: Callable[[SlaveConnection], None],
        acked: Callable[[], None],
        closed: Callable[[SlaveConnection], None],
    ) -> None:
        self.link = SlaveLink("", rules, clock.monotonic())
        self._store = store
        self._rules = rules
        self._clock = clock
        self._opened = opened
        self._acked = acked
        self._closed = closed
        self._reader = ReportReader()
        self._transport: asyncio.Transport | None = None
        self._paused = False
        self._scheduled = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # With a larger buffer a slow slave would hold gigabytes of the log in memory.
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        address = address_text(host, port)
        self.link = self._link_of(address)
        log.info("slave.connected", slave=address)
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        log.info("slave.disconnected", slave=self.link.address, acked=self.link.acked)
        self._closed(self)

    def data_received(self, data: bytes) -> None:
        try:
            offset = self._reader.feed(data)
            # The report is not complete yet.
            if offset is None:
                return
            grew = self.link.reported(offset, self._bounds(), self._clock.monotonic())
        except HaStreamError as exc:
            self.drop(str(exc))
            return
        # After a report there may be more to send.
        self.send_soon()
        if grew:
            self._acked()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self.send_soon()

    def send_soon(self) -> None:
        """Send what there is, from the loop's next turn on."""
        # Scheduled once: reports and appends come by the thousand.
        if not self._scheduled and not self._paused and self._transport is not None:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._send)

    def tick(self) -> None:
        """Some time has passed: a heartbeat, or the end of a silent slave."""
        if self.link.is_silent(self._clock.monotonic()):
            self.drop(f"no report for {self._rules.housekeeping_s:g} s")
        else:
            self.send_soon()

    def drop(self, reason: str) -> None:
        """Close the connection and say why."""
        if self._transport is not None:
            log.warning("slave.dropped", slave=self.link.address, reason=reason)
            self._transport.abort()
            self._transport = None

    def _send(self) -> None:
        self._scheduled = False
        sent = 0
        now = self._clock.monotonic()
        while self._transport is not None and not self._paused:
            piece = self.link.next_slice(self._bounds(), now)
            if piece is None:
                return
            head = self._head(piece)
            if not piece.size:
                self._transport.write(head)
                return
            body = self._store.commit_log.read(piece.offset, piece.size)
            # A file may have been deleted while it was being sent (W-23).
            if body is None:
                self.drop(f"the log has no {piece.size} bytes at {piece.offset} any more")
                return
            # Two buffers, so that the body stays a view of the log and is not copied.
            self._transport.writelines([head, body])
            sent += piece.size
            # Let other connections have their turn.
            if sent >= _BYTES_PER_TURN:
                self.send_soon()
                return

    def _link_of(self, address: str) -> SlaveLink:
        return SlaveLink(address, self._rules, self._clock.monotonic())

    def _head(self, piece: Slice) -> bytes:
        return encode_head(piece.offset, piece.size)

    def _bounds(self) -> LogBounds:
        files = self._store.commit_log.files
        return LogBounds(files.min_offset, self._store.shippable_offset, files.file_size)
