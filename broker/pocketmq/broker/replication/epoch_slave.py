"""The connection to the master in controller mode (H-110 to H-116).

The slave says who it is and gets the master's epochs. What it has beyond the last point at which
both logs are the same was never confirmed, and is cut; then it reports, and the master sends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from pocketmq.broker.replication.auto_switch_frames import (
    EpochFrame,
    FromMaster,
    MasterHandshake,
    MasterMessages,
    SlaveHandshake,
    encode_report,
    encode_slave_handshake,
)
from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epochs import NO_POINT, Epoch, Epochs
from pocketmq.broker.replication.ha_client import MasterConnection
from pocketmq.broker.replication.ha_frames import HaStreamError
from pocketmq.broker.replication.ha_slave import MasterLink
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.store import MessageStore, PutStatus
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.replica_log import NotFollowingError, ReplicaGapError
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()


class EpochMasterConnection(MasterConnection):
    """Handshake, cut, then frames; one after the other, also where the disk takes time.

    Args:
        store, rules, clock: as of `MasterConnection`.
        epochs: of this log.
        own_id: of this replica at the controller.
    """

    def __init__(
        self,
        store: MessageStore,
        rules: HaRules,
        clock: Clock,
        *,
        epochs: EpochFile,
        own_id: Callable[[], int],
    ) -> None:
        super().__init__(store, rules, clock)
        self._epochs = epochs
        self._own_id = own_id
        self._messages = MasterMessages()
        self._waiting: deque[FromMaster] = deque()
        self._task: asyncio.Task[None] | None = None
        """Works at the disk; messages wait meanwhile, and nothing more is read."""

    def _opened(self) -> None:
        assert self._transport is not None
        self._transport.write(encode_slave_handshake(SlaveHandshake(self._own_id())))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        # Work at the disk outlives the connection; when it ends, `closed` is set.
        if self._task is None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._came(len(data))
        try:
            self._waiting.extend(self._messages.feed(data))
        except HaStreamError as exc:
            self.close(str(exc))
            return
        self._work()

    @property
    def _may_read(self) -> bool:
        return self._task is None

    def tick(self) -> None:
        # The master does not know this slave before the handshake is answered, so nothing is
        # reported.
        if self._has_begun:
            super().tick()
        elif self.link.is_silent(self._clock.monotonic()):
            self.close("no answer to the handshake")

    def flushed(self) -> None:
        if self._has_begun:
            super().flushed()

    def _work(self) -> None:
        """Take the messages that wait, up to one that needs the disk."""
        store = self._store
        now = self._clock.monotonic()
        try:
            while self._waiting and self._task is None and self.is_open:
                if not store.replica.is_following:  # a cut would take this master's own messages
                    raise NotFollowingError
                message = self._waiting[0]
                # Handled alone: what to do with later messages depends on where the log ends then.
                if isinstance(message, MasterHandshake):
                    self._at_disk(self._reconcile(self._waiting.popleft()))
                    return
                # Save the epoch before its first byte: after a crash that byte would count as the
                # earlier epoch's.
                if message.epoch > self._epochs.table.last_number:
                    entry = Epoch(message.epoch, message.epoch_start)
                    self._at_disk(self._epochs.append(entry, store.commit_log.min_offset))
                    return
                self._waiting.popleft()
                self._take(message, now)
        except (HaStreamError, NotFollowingError, ReplicaGapError, DiskError) as exc:
            self.close(str(exc))
            return
        if self._has_begun:
            self._report(self.link.appended(store.shippable_offset, now))

    def _take(self, frame: EpochFrame, now: float) -> None:
        store = self._store
        # Without a handshake the master cannot know where this log ends.
        if not self._has_begun:
            raise HaStreamError("a frame before the handshake")
        log_end = store.commit_log.max_offset
        if self.link.framed(frame.offset, len(frame.body), log_end, now):
            store.replica.append(frame.offset, frame.body)
        # The smaller of the two: a slave may be behind what its master has confirmed (H-114).
        store.confirm(min(frame.confirm_offset, store.commit_log.max_offset))

    def _at_disk(self, work: object) -> None:
        assert asyncio.iscoroutine(work)
        if self._transport is not None:
            # Nothing more is read meanwhile, so that few frames pile up.
            self._transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(work, name="follow an epoch")
        self._task.add_done_callback(self._went_on)

    def _went_on(self, task: asyncio.Task[None]) -> None:
        self._task = None
        # Any failure ends the connection; the next one begins with a handshake.
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, (HaStreamError, DiskError, StoreFileError, ValueError)):
                log.error("epoch.failed", exc_info=error)
            self.close(str(error))
        # The connection was lost meanwhile; this is reported only when the disk is done.
        if self._transport is None:
            super().connection_lost(None)
            return
        self._transport.resume_reading()
        self._work()

    async def _reconcile(self, message: FromMaster) -> None:
        """Cut what the master does not have, then ask for the rest (H-112)."""
        assert isinstance(message, MasterHandshake)
        store = self._store
        end = store.commit_log.max_offset
        # Leave out epochs in which nothing was written (W-5).
        mine = Epochs(each for each in self._epochs.table.entries if each.start < end)
        # A log without epochs is from before the controller: cut nothing (H-112, H-116).
        if mine.last is not None:
            point = mine.consistent_point(end, Epochs(message.epochs), message.max_offset)
            # Without a common epoch the log would be cut to 0, and it may be the better one.
            if point == NO_POINT:
                raise HaStreamError(
                    "the master and this replica have no epoch in common: this store belongs to "
                    "another cluster, or is too old; empty this replica's store, and start the "
                    "replica again"
                )
            cut = await store.replica.truncate(point)
            if cut:
                log.warning("log.diverged", cut_at=point, bytes=cut, master_end=message.max_offset)
            end = point
        # After the log: an epoch beyond its end would later count as written (H-134).
        await self._epochs.cut_suffix(end)
        safe = store.shippable_offset >= store.commit_log.max_offset
        # With SYNC_FLUSH only what is on the disk may be acknowledged (W-9).
        if not safe and await store.flush() is not PutStatus.PUT_OK:
            raise HaStreamError(
                "this replica's log could not be flushed, so the replica cannot acknowledge "
                "anything to its master"
            )
        now = self._clock.monotonic()
        self.link = MasterLink(self._rules, store.commit_log.max_offset, now)
        self._has_begun = True
        self._report(store.commit_log.max_offset)  # W-1: at once

    def _encoded(self, offset: int) -> bytes:
        return encode_report(offset)
