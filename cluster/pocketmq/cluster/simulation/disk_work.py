"""How long a simulated disk takes: slow, hung and failing syncs, and workers that wait for them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from pocketmq.broker.store.disk_worker import Done, Job
from pocketmq.cluster.simulation.loop import START_MS, VirtualLoop
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.loop_clock import LoopClock

USUAL_SYNC_S = (0.0001, 0.004)
"""Shortest and longest sync of an undisturbed disk."""


def _nothing() -> None:
    """A failed write left nothing behind."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a sync does to the medium."""

    done: Callable[[], None]
    failed: Callable[[], None] = field(default=_nothing)


class DiskTrouble:
    """What is wrong with one machine's disk now.

    Args:
        loop: Its time passes.
        chance: Draws how long a sync takes.
    """

    def __init__(self, loop: VirtualLoop, chance: random.Random) -> None:
        self.loop = loop
        self.clock = LoopClock(loop, START_MS)
        self.log_only = False
        """The log lies on a disk of its own, and only that one is slow or hung."""
        self.slow_s = 0.0
        """A sync takes up to so long."""
        self.hung_until = 0.0
        """No sync ends before."""
        self.failing_share = 0.0
        """Syncs that fail."""
        self.failed = 0
        self._chance = chance

    def clear(self) -> None:
        """The disk is well again."""
        self.slow_s = self.hung_until = self.failing_share = 0.0

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return not (self.slow_s or self.failing_share or self.hung_until > self.loop.time())

    def ends_at(self, began_at: float, *, log: bool) -> float:
        """When a sync that begins now ends, unless the disk hangs meanwhile.

        Args:
            began_at: Virtual seconds.
            log: Whether it is one of the commit log.
        """
        if self.log_only and not log:
            return began_at + self._chance.uniform(*USUAL_SYNC_S)
        low, high = (self.slow_s / 4, self.slow_s) if self.slow_s else USUAL_SYNC_S
        return max(began_at + self._chance.uniform(low, high), self.hung_until)

    def hangs(self, *, log: bool) -> bool:
        """Whether a sync that should have ended by now has not."""
        return self.hung_until > self.loop.time() and (log or not self.log_only)

    def fails(self) -> bool:
        """Whether a sync fails."""
        fails = self.failing_share > 0 and self._chance.random() < self.failing_share
        self.failed += fails
        return fails

    async def pass_time(self) -> bool:
        """Wait as long as a write takes; whether it failed."""
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
    """Runs jobs one after the other, as a thread that waits for the disk does.

    A job's system calls are made when it begins; what they sync is on the medium when it ends, and
    nothing of it when its process dies before.

    Args:
        record: Runs a job; what it will have done.
        trouble: Of the machine's disk.
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
        """Begin a job, or let it wait for those before it."""
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
        except Exception as exc:  # noqa: BLE001 - as in a thread, the loop decides what follows
            return [], exc

    def _ended(self) -> None:
        if self._running is None:
            return  # `close` did not wait
        if self._trouble.hangs(log=self._log):
            self._trouble.clock.call_at(self._trouble.hung_until, self._ended)
            return
        self._finish()()
        self._begin_next()

    def _finish(self) -> Callable[[], None]:
        """Let what runs take effect; what tells the one who asked for it."""
        assert self._running is not None
        (effects, failure, done), self._running = self._running, None
        if failure is None and effects and self._trouble.fails():
            failure = DiskError("disk", "a sync has failed")
        for effect in effects:
            effect.done() if failure is None else effect.failed()
        return lambda: done(failure)

    def close(self) -> None:
        """End every job at once; those who asked hear of it in the loop's next turn."""
        loop = self._trouble.loop
        while self._running is not None or self._waiting:
            if self._running is None:
                job, done = self._waiting.popleft()
                self._running = *self._recorded(job), done
            loop.call_soon(self._finish())
