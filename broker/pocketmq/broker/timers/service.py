"""The timer service: logs what is stored in the wheel topic, and delivers what is due.

    wheel topic --> take in --> timer log + slot          intake.py
                                      |
    real topic  <-- deliver <-- slot that is over         delivering.py

RocketMQ steps through every second. Here one service sleeps until the first slot in which anything
waits is over. What arrives is taken in at the end of the turn of the loop, all of it at once, and
wakes the service only if it is due before everything else. Both halves repeat work after a kill
rather than lose it; nothing is noted as done before it is stored.
"""

from __future__ import annotations

import structlog

from pocketmq.broker.core import defer
from pocketmq.broker.stats.broker_stats import BrokerStats
from pocketmq.broker.store import MessageStore
from pocketmq.broker.subject import Service
from pocketmq.broker.timers.delivered import WhenKept
from pocketmq.broker.timers.delivering import TimerDelivery
from pocketmq.broker.timers.intake import TimerIntake
from pocketmq.broker.timers.late_copies import LateCopies
from pocketmq.broker.timers.layout import Checkpoint, LogRecord
from pocketmq.broker.timers.state import TimerState
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

FLUSH_S = 1.0
CLEAN_S = 30.0
AFTER_FAILURE_S = 0.5
LONGEST_WAIT_S = 10.0
"""Setting the wall clock forward wakes no sleeping task, so the clock is read this often."""


class TimerService(Service):
    """Takes timer messages in, and delivers them when their slot is over.

    Args:
        store: read from and delivered to.
        clock: its wall clock says what is due.
        state: what waits.
        stats: counts what is delivered.
        when_kept: when what was delivered is safe, on replicas too; flushed by default.
    """

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        state: TimerState,
        stats: BrokerStats,
        when_kept: WhenKept | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._rules, self._wheel, self._log = state.rules, state.wheel, state.log
        self._files, self._counts = state.files, state.counts
        self._delivering = TimerDelivery(store, clock, state, stats, when_kept)
        self._late = LateCopies(store, when_kept, self.arrived)
        self._intake = TimerIntake(store, clock, state, self._delivering, self._late, stats.meters)
        self._cleaned_at = 0.0
        self._next_ms: int | None = None
        """The slot that the service sleeps for."""
        self._is_deferred = False
        self._service = PeriodicService(
            "timers", clock, AFTER_FAILURE_S, self._run, initial_delay_s=0
        )
        self._flushing = PeriodicService("flush timers", clock, FLUSH_S, self._flush)

    # -- start and stop ---------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the counts; the rest has to wait for the store."""
        await self._files.load_counts()

    def recovered(self) -> None:
        """Find what waits (T-145).

        Raises:
            StoreFileError: a file is there and is no timer file.
        """
        files, wheel = self._files, self._wheel
        self._delivering.forget()  # of an earlier time as master
        wheel.clear()
        known = files.load_checkpoint()
        read_ms = files.checkpoint.read_ms
        self._log.load()
        files.load_wheel(read_ms)

        def found(position: int, record: LogRecord) -> None:
            # Earlier slots were delivered and must not come again.
            if record.slot_ms >= read_ms:
                wheel.point_at(record.slot_ms, position)

        flushed = files.checkpoint.flushed_position
        end = self._log.recover(flushed, found)
        # A slot that leads beyond the log's end is damaged (T-145).
        wheel.drop_behind(end)
        self._intake.recovered(undamaged=end >= flushed)
        # No check point yet: nothing waits, and slots begin now.
        if not known:
            self._delivering.slots.begin_at(self._rules.floor(self._clock.time_ms()))
        log.info("timers.loaded", slots=len(wheel), queue_offset=self._intake.queue_offset)

    async def start(self) -> None:
        """Begin; what became due meanwhile is delivered at once."""
        self._files.start()
        self._service.start()
        self._flushing.start()

    async def stop(self) -> None:
        """Return when nothing is under way and everything is on the disk."""
        await self._service.stop()
        await self._flushing.stop(final_run=True)
        self._files.close()

    def arrived(self) -> None:
        """A message was stored in the wheel topic: take it in when this turn of the loop is over.

        A task would cost more than taking it in.
        """
        if not self._service.running:
            self._service.wakeup()
        elif not self._is_deferred:
            self._is_deferred = True
            defer(self._take_in_soon)

    # -- figures (T-155) ------------------------------------------------------------------------

    @property
    def behind_s(self) -> int:
        """How late deliveries are, in seconds."""
        return self._delivering.behind_s

    @property
    def offset_behind(self) -> int:
        """Messages of the wheel topic that are not yet taken in."""
        return self._intake.offset_behind

    @property
    def is_caught_up(self) -> bool:
        """Whether all that is due by now is delivered, and can be read where it was delivered."""
        return not self._intake.offset_behind and self._delivering.is_caught_up

    def follow(self, master: Checkpoint) -> None:
        """Note how far the master's timers are (T-114); this broker's own rest.

        Its wheel and log are not copied: when this broker leads, it takes in the wheel topic from
        the first message that the master has not delivered.
        """
        self._files.write_checkpoint(
            Checkpoint(master.read_ms, 0, 0, master.queue_offset, master.version)
        )

    # -- work -----------------------------------------------------------------------------------

    async def _run(self) -> float:
        """Take in and deliver all there is; seconds until the next slot is over."""
        while True:
            try:
                taken = self._take_in()
                delivered = self._deliver()
            except DiskError as exc:
                log.error("timers.disk_failed", reason=str(exc))
                return AFTER_FAILURE_S
            if taken is None or delivered is None:
                return AFTER_FAILURE_S
            if not taken and not delivered:
                break
            await self._clock.sleep(0)  # a backlog of hours must not keep the broker from answering
        self._next_ms = next_ms = self._wheel.next_ms()
        if next_ms is None:
            return AT_REST  # until something arrives
        # Wait 10 s at most, because a change of the wall clock does not shorten a sleep.
        left_ms = self._rules.delivered_at_ms(next_ms) - self._clock.time_ms()
        return min(LONGEST_WAIT_S, max(1, left_ms) / 1000)

    def _take_in_soon(self) -> None:
        """Take in what arrived in the last turn; the service goes on when it has more to do."""
        self._is_deferred = False
        if not self._service.running:
            return
        try:
            taken = self._take_in()
        except DiskError:
            taken = None  # the service meets it again, reports it and waits
        next_ms = self._wheel.next_ms()
        is_sooner = next_ms is not None and (self._next_ms is None or next_ms < self._next_ms)
        # The service must run: something failed, is due earlier, or has arrived.
        if taken is None or is_sooner or self._intake.offset_behind:
            self._service.wakeup()

    def _take_in(self) -> int | None:
        taken = self._intake.take_in()
        if taken or not self._late.are_safe:
            self._flushing.resume()
        return taken

    def _deliver(self) -> int | None:
        delivered = self._delivering.deliver()
        if delivered and self._delivering.is_between_slots:
            self._flushing.resume()
        return delivered

    # -- the disk -------------------------------------------------------------------------------

    async def _flush(self) -> float | None:
        """Bring everything to the disk; what `PeriodicService` wants."""
        try:
            if await self._late.flush():
                self._intake.take_in()  # here, because the service may have been stopped
                self._service.wakeup()
            queue_offset = self._intake.queue_offset
            await self._delivering.slots.flush()
            await self._files.flush(queue_offset)
        except DiskError as exc:
            log.error("timers.flush_failed", reason=str(exc))
            return None
        now = self._clock.monotonic()
        # At most every 30 s, however often the service flushes (T-148).
        if now - self._cleaned_at >= CLEAN_S:
            self._cleaned_at = now
            self._log.clean(self._store.commit_log.min_offset)
        # When nothing is left to flush, the service rests until something changes.
        is_clean = (
            queue_offset == self._intake.queue_offset
            and self._late.are_safe
            and self._delivering.slots.all_noted
            and not self._wheel.is_dirty
            and not self._counts.unsaved
            and self._delivering.is_between_slots
        )
        return AT_REST if is_clean else None
