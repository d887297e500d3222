"""A slave's connection in controller mode: it says who it is, frames name their epoch (H-120)."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.replication.auto_switch_frames import (
    SlaveHandshake,
    SlaveMessages,
    encode_head,
    encode_master_handshake,
)
from pocketmq.broker.replication.epochs import Epoch, Epochs
from pocketmq.broker.replication.ha_frames import HaStreamError
from pocketmq.broker.replication.ha_master import UNKNOWN, LogBounds, SlaveLink, Slice
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.replication.slave_connection import SlaveConnection
from pocketmq.broker.replication.sync_state import SyncState
from pocketmq.broker.store import MessageStore
from pocketmq.runtime.clock import Clock

NO_EPOCH = Epoch(0, 0)


class EpochSlaveLink(SlaveLink):
    """An empty slave begins with the first file, not with the last (H-120)."""

    @staticmethod
    def _start(offset: int, log: LogBounds) -> int:
        return log.low if offset == 0 else SlaveLink._start(offset, log)


class EpochSlaveConnection(SlaveConnection):
    """Answers a handshake with the epochs, then sends the log epoch by epoch.

    Args:
        store, rules, clock, opened, acked, closed: as of `SlaveConnection`.
        epochs: of this log.
        sync: is told of the slave.
    """

    def __init__(
        self,
        store: MessageStore,
        rules: HaRules,
        clock: Clock,
        opened: Callable[[SlaveConnection], None],
        acked: Callable[[], None],
        closed: Callable[[SlaveConnection], None],
        *,
        epochs: Callable[[], Epochs],
        sync: SyncState,
    ) -> None:
        super().__init__(store, rules, clock, opened, acked, closed)
        self.slave_id = 0
        """0 before its handshake."""
        self._epochs = epochs
        self._sync = sync
        self._messages = SlaveMessages()
        self._looked = (0, clock.monotonic())
        """End of the log at an earlier moment, and when that was."""

    def connection_lost(self, exc: Exception | None) -> None:
        # The connection is named because a newer one of the same slave may exist already.
        if self.slave_id:
            self._sync.gone(self.slave_id, self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        grew = False
        try:
            for message in self._messages.feed(data):
                if isinstance(message, SlaveHandshake):
                    self._shake(message)
                else:
                    self._report(message.offset)
                    grew = True
        except HaStreamError as exc:
            self.drop(str(exc))
            return
        self.send_soon()
        # Once for all reports of this read, so that a waiting put is woken once.
        if grew:
            self._acked()

    def _shake(self, message: SlaveHandshake) -> None:
        # The slave needs an id of its own: a copy of a store would count as two replicas (F-30).
        if message.slave_id <= 0 or message.slave_id == self._sync.own_id:
            raise HaStreamError(
                f"the slave has id {message.slave_id}, but its id must be above 0 and different "
                f"from this master's id {self._sync.own_id}"
            )
        self.slave_id = message.slave_id
        # Start a new link: an older handshake of this connection does not count any more.
        self.link = self._link_of(self.link.address)
        self._sync.connected(self.slave_id, self)
        epochs = self._epochs()
        log_end = self._store.commit_log.max_offset
        if self._transport is not None:
            self._transport.write(
                encode_master_handshake(log_end, epochs.last_number, epochs.entries)
            )

    def _report(self, offset: int) -> None:
        # Without an id the report cannot be counted for any replica.
        if not self.slave_id:
            raise HaStreamError("a report before the handshake")
        now = self._clock.monotonic()
        self.link.reported(offset, super()._bounds(), now)
        log_end = self._store.commit_log.max_offset
        looked_end, looked_at = self._looked
        # The slave has caught up now, or had when this master last looked (H-153).
        caught_up_at = now if offset >= log_end else looked_at if offset >= looked_end else 0.0
        # Remember the next end to compare with, so that a slave need not reach an end that moves.
        if offset >= looked_end:
            self._looked = (log_end, now)
        self._sync.reported(self.slave_id, self, offset, caught_up_at)

    def _link_of(self, address: str) -> SlaveLink:
        return EpochSlaveLink(address, self._rules, self._clock.monotonic())

    def _head(self, piece: Slice) -> bytes:
        # A log from before the controller has no epochs: its bytes are sent as epoch 0 (H-116).
        epoch = self._epochs().of(piece.offset) or NO_EPOCH
        return encode_head(piece.offset, piece.size, epoch, self._store.confirmed_offset)

    def _bounds(self) -> LogBounds:
        """Up to the end of the epoch that is being sent (H-122)."""
        log = super()._bounds()
        epochs = self._epochs()
        # Before the first report the offset is unknown; after it a frame stays within its epoch
        # (H-122).
        epoch = None if self.link.next_offset == UNKNOWN else epochs.of(self.link.next_offset)
        if epoch is None:
            return log
        return log._replace(high=min(log.high, epochs.end_of(epoch, log.high)))
