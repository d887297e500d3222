"""Follows a master: connects, appends what it sends, reports (H-20 to H-29)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import structlog

from pocketmq.broker.replication.ha_frames import FrameReader, HaStreamError, encode_report
from pocketmq.broker.replication.ha_slave import MasterLink
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.store import MessageStore
from pocketmq.broker.store.replica_log import NotFollowingError, ReplicaGapError
from pocketmq.broker.subject import Service
from pocketmq.protocol.transport.channel import FULL_READ_BYTES
from pocketmq.protocol.transport.network import Network
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError, PeerError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

TICK_S = 1.0

FULL_READS_A_TURN = 4
"""So often a socket that has more is read before other work goes on: 1 MB takes some 5 ms."""


class MasterConnection(asyncio.Protocol):
    """The connection to the master: bytes in and out, around `ha_slave.MasterLink`.

    Args:
        store: gets the log.
        rules: times.
        clock: the times.
    """

    def __init__(self, store: MessageStore, rules: HaRules, clock: Clock) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.reason = "the master closed the connection"
        """Why it ended, when it has."""
        self.received_bytes = 0
        self.link = MasterLink(rules, store.commit_log.max_offset, clock.monotonic())
        self._store = store
        self._rules = rules
        self._clock = clock
        self._reader = FrameReader()
        self._full_reads = 0
        """In this turn of the loop: the socket had more."""
        self._transport: asyncio.Transport | None = None
        self._has_begun = False
        """Whether the master knows where this log ends."""
        self._was_made = False
        self._is_unwanted = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._was_made = True
        # A new link, because the log may have grown while the connection was opened.
        end = self._store.commit_log.max_offset
        self.link = MasterLink(self._rules, end, self._clock.monotonic())
        # It was closed while it was being opened: the master changed, or the broker stops.
        if self._is_unwanted:
            self._transport.abort()
        else:
            self._opened()

    def _opened(self) -> None:
        self._begin()  # W-1: at once

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._came(len(data))
        store, link = self._store, self.link
        now = self._clock.monotonic()
        try:
            for offset, body in self._reader.feed(data):
                # An earlier frame closed the connection: ignore the frames after it.
                if not self.is_open:
                    return
                # A heartbeat appends nothing, but one for another offset closes the link (H-25).
                if link.framed(offset, len(body), store.commit_log.max_offset, now):
                    store.replica.append(offset, body)
        except (HaStreamError, NotFollowingError, ReplicaGapError, DiskError) as exc:
            self.close(str(exc))
            return
        # Report the shippable end, not the log's: with SYNC_FLUSH only flushed bytes are
        # acknowledged.
        self._report(link.appended(store.shippable_offset, now))

    def _came(self, size: int) -> None:
        """Bytes were read; when there are more, others have their turn after a few reads.

        While this log catches up, its master sends faster than we read, and clients read here.
        """
        self.received_bytes += size
        # More bytes are likely to be waiting only if this read was full.
        if size < FULL_READ_BYTES or not self.is_open:
            return
        assert self._transport is not None
        self._full_reads += 1
        if self._full_reads == 1:
            asyncio.get_running_loop().call_soon(self._next_turn)
        elif self._full_reads == FULL_READS_A_TURN and self._may_read:
            # Where `_may_read` is false, reading is paused already.
            self._transport.pause_reading()

    def _next_turn(self) -> None:
        paused, self._full_reads = self._full_reads >= FULL_READS_A_TURN, 0
        if paused and self.is_open and self._may_read:
            assert self._transport is not None
            self._transport.resume_reading()

    @property
    def _may_read(self) -> bool:
        """Whether what was read is taken."""
        return True

    def flushed(self) -> None:
        """More of the log is on the disk: under SYNC_FLUSH only that is acknowledged (W-9)."""
        if not self._has_begun:
            self._begin()
        else:
            now = self._clock.monotonic()
            self._report(self.link.appended(self._store.shippable_offset, now))

    def _begin(self) -> None:
        """Tell where this log ends, and with it that it is safe so far."""
        end = self._store.commit_log.max_offset
        # Wait until all is flushed: the first report acknowledges the whole log (W-9).
        if self.is_open and self._store.shippable_offset >= end:
            self._has_begun = True
            self._report(end)

    def tick(self) -> None:
        """Some time has passed: a report, or the end of a silent master."""
        now = self._clock.monotonic()
        # Either side may be silent: the master, or this slave, which the master would drop (H-28,
        # H-34).
        if self.link.is_silent(now):
            self.close(f"no frame for {self._rules.housekeeping_s:g} s")
        elif self._has_begun:
            self._report(self.link.tick(self._store.shippable_offset, now))

    def close(self, reason: str) -> None:
        """End the connection; one that is still being opened ends as soon as it is."""
        self._is_unwanted = True
        if self._transport is not None:
            self.reason = reason
            self._transport.abort()

    async def ended(self) -> None:
        """Return when nothing is appended or cut here any more; call after `close`."""
        if self._was_made:
            await self.closed

    def _report(self, offset: int | None) -> None:
        if offset is not None and self.is_open:
            assert self._transport is not None
            self._transport.write(self._encoded(offset))

    def _encoded(self, offset: int) -> bytes:
        return encode_report(offset)


# behaviour 42
class HaClient(Service):
    """Keeps a connection to the master while this broker is a slave (B-130); messages come here,
    and not by the timer (B-122).

    Args:
        store: gets the log.
        network: to the master.
        clock: waits, reports and silence.
        rules: times.
        connection: makes one; controller mode's are others.
    """

    def __init__(
        self,
        store: MessageStore,
        network: Network,
        clock: Clock,
        rules: HaRules,
        connection: Callable[[MessageStore, HaRules, Clock], MasterConnection] = MasterConnection,
    ) -> None:
        self._make = connection
        self.connection: MasterConnection | None = None
        """The present one, or the last."""
        self._store = store
        self._network = network
        self._clock = clock
        self._rules = rules
        self._master: str | None = None
        self._attempts = PeriodicService(
            "follow the master", clock, rules.retry_s, self._follow, initial_delay_s=0
        )
        self._ticks = PeriodicService("report to the master", clock, TICK_S, self._tick)
        self._listens = False
        """Whether `store.grew` reaches us: a broker that never was a slave is spared it."""

    @property
    def master(self) -> str | None:
        """`host:port` of the master's replication port; None while it is not known."""
        return self._master

    @property
    def is_connected(self) -> bool:
        """Whether frames can come."""
        return self.connection is not None and self.connection.is_open

    def follow(self, address: str | None) -> None:
        """Follow this master from now on; None ends following. The same address changes nothing."""
        if address == self._master:
            return
        log.info("master.changed", before=self._master, now=address)
        self._master = address
        if self.connection is not None:
            self.connection.close("the master has changed")
        self._attempts.wakeup()

    def retry(self) -> None:
        """The master is there just now: connect, if that is not done."""
        if not self.is_connected:
            self._attempts.wakeup()

    async def start(self) -> None:
        self._attempts.start()
        self._ticks.start()

    async def stop(self) -> None:
        self._master = None
        if self.connection is not None:
            self.connection.close("the broker stops")
        await self._attempts.stop()
        await self._ticks.stop()

    async def stopped_following(self) -> None:
        """Return when no byte of a master is appended or cut any more; call after `follow(None)`.

        A connection that is aborted may still work at the disk: until that is done this broker must
        not lead, or the cut would take its own messages away.
        """
        if self.connection is not None:
            await self.connection.ended()

    async def _follow(self) -> float | None:
        """One connection, from its begin to its end."""
        address = self._master
        # `follow` wakes the service when there is a master.
        if address is None:
            return AT_REST
        # Connected only when needed, so that brokers which never follow save a call at each append.
        if not self._listens:
            self._listens = True
            self._store.grew.connect(self._flushed)
        connection = self.connection = self._make(self._store, self._rules, self._clock)
        try:
            with self._clock.peer_wait():
                await self._network.dial(address, connection)
        except PeerError as exc:
            log.warning("master.unreachable", address=address, reason=str(exc))
            # Try again after 5 s, but at once if another master was named meanwhile (H-22).
            return None if address == self._master else 0
        if address == self._master:
            self._ticks.resume()
            log.info("master.followed", address=address, offset=connection.link.reported)
        with self._clock.peer_wait():
            await connection.closed
        log.warning("master.lost", address=address, reason=connection.reason)
        # Connect to a new master at once, but to the same one only after a pause.
        return 0 if address != self._master else None

    def _flushed(self) -> None:
        if self.connection is not None and self.connection.is_open:
            self.connection.flushed()

    def _tick(self) -> float | None:
        if self.connection is None or not self.connection.is_open:
            return AT_REST
        self.connection.tick()
        return None
