"""Timing of a simulated disk: slow, hung and failing syncs, and workers that wait for them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pocketmq.broker.store.disk.disk_worker import Done, Job
from pocketmq.runtime.errors import DiskError
from pocketmq.simulation.loop import START_MS, VirtualLoop
from pocketmq.simulation.loop_clock import LoopClock

USUAL_SYNC_S = (0.0001, 0.004)
"""Shortest and longest sync of a disk without faults, in seconds."""


def _nothing() -> None:
    """The effect of a failed write: none."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a sync on the medium."""

    done: Callable[[], None]
    failed: Callable[[], None] = field(default=_nothing)


class DiskTrouble:
    """The current faults of one machine's disk.

    Args:
        loop: The loop on virtual time.
        chance: Draws the duration of syncs.
    """

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop = loop
        self.clock = LoopClock(loop, START_MS)
        self.log_only = False
        """Whether only the commit log's disk is slow or hung, which then is a separate one."""
        self.slow_s = 0.0
        """Maximum seconds of a sync."""
        self.hung_until = 0.0
        """Virtual time before which no sync ends."""
        self.failing_share = 0.0
        """Share of syncs that fail."""
        self.failed = 0
        self._chance = chance

    def clear(self) -> None:
        """End all faults."""
        self.slow_s = self.hung_until = self.failing_share = 0.0

    @property
    def is_well(self) -> bool:
        """Whether there is no fault."""
        return not (self.slow_s or self.failing_share or self.hung_until > self.loop.time())

    def ends_at(self, began_at: float, *, log: bool) -> float:
        """Virtual time at which a sync ends, unless the disk hangs meanwhile.

        Args:
            began_at: Its begin in virtual seconds.
            log: Whether it is a sync of the commit log.
        """
        if self.log_only and not log:
            return began_at + self._chance.uniform(*USUAL_SYNC_S)
        low, high = (self.slow_s / 4, self.slow_s) if self.slow_s else USUAL_SYNC_S
        return max(began_at + self._chance.uniform(low, high), self.hung_until)

    def hangs(self, *, log: bool) -> bool:
        """Whether a sync must wait longer, because the disk hangs."""
        return self.hung_until > self.loop.time() and (log or not self.log_only)

    def fails(self) -> bool:
        """Draw whether a sync fails."""
        fails = self.failing_share > 0 and self._chance.random() < self.failing_share
        self.failed += fails
        return fails

    async def pass_time(self) -> bool:
        """Wait as long as a write takes; returns whether it failed."""
        ended = self.loop.create_future()

        def end() -> None:
            if self.hangs(log=False):
                self.clock.call_at(self.hung_until, end)
            elif not ended.done():
                ended.set_result(None)

        self.clock.call_at(self.ends_at(self.loop.time(), log=False), end)
        await ended
        return self.fails()


class TimedWorker:
    """Runs jobs one after the other, like a thread that waits for the disk.

    A job's system calls are made when it begins. Their effects on the medium happen when it ends,
    and never if its process dies before.

    Args:
        record: Runs a job, and returns its effects.
        trouble: Faults of the machine's disk.
        log: Whether it syncs the commit log.
    """

    def __init__(
        self, record: Callable[[Job], list[Effect]], trouble: DiskTrouble, *, log: bool
    ) -> None:
        self._log = log
        self._record = record
        self._trouble = trouble
        self._waiting: deque[tuple[Job, Done]] = deque()
        self._running: tuple[list[Effect], Exception | None, Done] | None = None

    def submit(self, job: Job, done: Done) -> None:
        """Begin a job, or queue it behind others."""
        self._waiting.append((job, done))
        self._begin_next()

    def _begin_next(self) -> None:
        if self._running is not None or not self._waiting:
            return
        job, done = self._waiting.popleft()
        effects, failure = self._recorded(job)
        self._running = effects, failure, done
        now = self._trouble.loop.time()
        self._trouble.clock.call_at(
            self._trouble.ends_at(now, log=self._log) if effects else now, self._ended
        )

    def _recorded(self, job: Job) -> tuple[list[Effect], Exception | None]:
        try:
            return self._record(job), None
        except Exception as exc:  # noqa: BLE001 - as with a thread, the caller's loop handles it
            return [], exc

    def _ended(self) -> None:
        if self._running is None:
            return  # `close` was called
        if self._trouble.hangs(log=self._log):
            self._trouble.clock.call_at(self._trouble.hung_until, self._ended)
            return
        self._finish()()
        self._begin_next()

    def _finish(self) -> Callable[[], None]:
        """Apply the effects of the running job; returns the call that reports its result."""
        assert self._running is not None
        (effects, failure, done), self._running = self._running, None
        if failure is None and effects and self._trouble.fails():
            failure = DiskError("disk", "a sync has failed")
        for effect in effects:
            effect.done() if failure is None else effect.failed()
        return lambda: done(failure)

    def close(self) -> None:
        """End all jobs at once; their results are reported in the loop's next turn."""
        loop = self._trouble.loop
        while self._running is not None or self._waiting:
            if self._running is None:
                job, done = self._waiting.popleft()
                self._running = *self._recorded(job), done
            loop.call_soon(self._finish())
