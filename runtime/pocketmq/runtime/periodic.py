"""`PeriodicService`: an action that runs periodically, or sooner when woken.

All timer loops are instances of it. Waiting and waking follow `clock.Latch`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

import structlog

from pocketmq.runtime.clock import Clock, Latch

log = structlog.get_logger()

AT_REST = math.inf
"""What an action returns when nothing is left to do: no timer runs until `resume` or `wakeup`."""

Action = Callable[[], float | Awaitable[float | None] | None]


class PeriodicService:
    """Runs an action every `period_s`, or sooner when woken.

    Runs never overlap. A `wakeup()` during a run causes exactly one more run after it; one before
    `start()` makes the first run come at once. An error in the action is reported and the service
    goes on with the next period.

    An action that finds nothing to do may return `AT_REST`. The service then waits for `resume()`,
    after which the next run comes one period later, or for `wakeup()`.

    Args:
        name: Names the task and the log lines.
        clock: What the waits between runs are measured on.
        period_s: From the end of a run to the begin of the next; a function is asked each time.
        action: Sync or async. A number that it returns replaces the period for the next wait.
        initial_delay_s: Before the first run; None means one period, 0 at once.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        period_s: float | Callable[[], float],
        action: Action,
        *,
        initial_delay_s: float | None = None,
    ) -> None:
        self.name = name
        self._period_s = period_s
        self.runs = 0
        """How often the action has begun."""
        self._clock = clock
        self._action = action
        self._initial_delay_s = self.period_s if initial_delay_s is None else initial_delay_s
        self._latch = Latch()
        self._resting = False
        self._resumed = False
        """A rest was ended by `resume`, and by nothing that wants a run at once."""
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._began: list[float | Awaitable[float | None]] = []
        """What a run came to that the clock's timer began and the task has to end; at most one."""

    @property
    def period_s(self) -> float:
        """From the end of a run to the begin of the next."""
        return self._period_s() if callable(self._period_s) else self._period_s

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Begin; needs a running loop. A stopped service may start again."""
        if self.running:
            raise RuntimeError(f"service {self.name} runs already")
        self._stopping = False
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self.name)

    def wakeup(self) -> None:
        """Run as soon as possible; several calls before that run collapse into one."""
        # Otherwise an earlier `resume` in the same rest would delay this run by a period.
        self._resumed = False
        self._latch.wakeup()

    def resume(self) -> None:
        """There is work again: end a rest, and run one period from now. Costs next to nothing."""
        if self._resting:
            self._resting = False
            self._resumed = True
            self._latch.wakeup()

    async def stop(self, *, final_run: bool = False) -> None:
        """Return when the service has ended; no run starts after this call except the final one.

        A run in progress ends by itself first. Called from inside the action, it returns at once.

        Args:
            final_run: Run the action one last time, so that nothing pending is lost.
        """
        # Set first: the task that is woken next looks at it.
        self._stopping = True
        self._latch.wakeup()
        task = self._task
        if task is not None:
            # A task that waits for itself never ends.
            if task is asyncio.current_task():
                return
            # Shielded: a caller that loses patience must not tear a write in two.
            with self._clock.peer_wait():
                await asyncio.shield(task)
            # Clear the wake-up, or it would wake the service after another `start`.
            self._latch.take()
        # The task has ended, so this run overlaps no other.
        if final_run:
            await self._run_once()

    async def _run(self) -> None:
        wait_s = self._initial_delay_s
        while not self._must_stop():
            if wait_s == AT_REST:
                wait_s = await self._rest()
                if self._must_stop():
                    return  # a `resume` just before `stop`: their one wakeup is used up
            if wait_s > 0 or self._latch.notified:
                await self._clock.wait(self._latch, wait_s, self._expired)
            else:
                # A run that wants the next one at once still gives others a turn.
                await self._clock.sleep(0)
            # The clock's timer has begun this run already: only its end is waited for.
            if self._began:
                begun = self._began.pop()
                wait_s = begun if isinstance(begun, (int, float)) else await self._until_done(begun)
                continue
            if self._must_stop():
                return
            wait_s = await self._run_once()

    async def _rest(self) -> float:
        """Wait until there is work; seconds until the next run."""
        self._resting, self._resumed = True, False
        await self._clock.wait(self._latch, None)
        self._resting = False
        # Without `resume`, the service was woken or stopped: it does not wait for a period.
        return self.period_s if self._resumed else 0

    def _must_stop(self) -> bool:
        return self._stopping  # asked anew after each await; another task may have set it

    def _expired(self) -> float | None:
        """Run the action where the clock's timer fires; seconds until the next run.

        None: the task has to go on, with what stands in `_began`.
        """
        if self._stopping:
            return None
        result = self._act()
        # A timer cannot handle an awaitable, a wait of 0 or a rest: the task does.
        if not isinstance(result, (int, float)) or result <= 0 or result == AT_REST:
            self._began.append(result)
            return None
        return result

    async def _run_once(self) -> float:
        result = self._act()
        return result if isinstance(result, (int, float)) else await self._until_done(result)

    def _act(self) -> float | Awaitable[float | None]:
        """Begin a run: seconds until the next one, or what has to be awaited for them."""
        self.runs += 1
        try:
            result = self._action()
        except Exception as exc:  # noqa: BLE001 - whatever it is, the next period must come
            self._failed(exc)
            return self.period_s
        if result is not None:
            return result
        return self.period_s

    async def _until_done(self, run: Awaitable[float | None]) -> float:
        try:
            result = await run
        except Exception as exc:  # noqa: BLE001 - likewise
            self._failed(exc)
            return self.period_s
        return self.period_s if result is None else result

    def _failed(self, exc: Exception) -> None:
        log.error("service.failed", service=self.name, exc_info=exc)
