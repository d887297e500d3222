"""The tasks that a manual clock woke, and which of them rest.

A task *rests* while only the clock or a peer can make it continue: it waits on the clock, has
ended, or awaits tasks that rest.
"""

from __future__ import annotations

import asyncio

from pocketmq.runtime.manual_time.loop_calls import calls_ahead

_QUIET_TURNS = 4
"""Turns of a loop without a busy task after which a moment counts as settled, so that callbacks
which a woken task scheduled (delivery by a memory transport, a latch) have run."""


class WokenTasks:
    """Of one clock; all of them are in its loop."""

    def __init__(self) -> None:
        self._busy: dict[asyncio.Task[object], None] = {}
        """Woken, and not seen resting since, in order of waking."""
        self._resting: set[asyncio.Task[object]] = set()
        """Inside `sleep`, `wait` or `peer_wait`."""
        self._watched: set[asyncio.Task[object]] = set()
        """A busy one waits for them; when one ends, `all_rest` is checked again."""
        self._settled: asyncio.Future[None] | None = None
        self.mover: asyncio.Task[object] | None = None
        """It moves the clock: it cannot rest before it has done so."""

    def __bool__(self) -> bool:
        """Whether one is busy. Any thread may ask."""
        return bool(self._busy)

    def is_busy(self, task: asyncio.Task[object]) -> bool:
        """Whether it was woken, and has not been seen resting since."""
        return task in self._busy

    def is_waiting(self, task: asyncio.Task[object]) -> bool:
        """Whether it waits on the clock or for a peer."""
        return task in self._resting

    def names(self) -> list[str]:
        """Names of those that do not rest now."""
        return [task.get_name() for task in self._busy if not self._rests(task)]

    # -- what they do -----------------------------------------------------------------------

    def rest(self, task: asyncio.Task[object]) -> None:
        """It begins to wait on the clock, or for a peer."""
        self._resting.add(task)
        self._forget(task)
        self._look_again()

    def goes_on(self, task: asyncio.Task[object]) -> None:
        """It waits no more; whoever made it go on has told whether the clock did."""
        self._resting.discard(task)

    def wake(self, task: asyncio.Task[object]) -> None:
        """The clock makes it go on."""
        self._resting.discard(task)
        if task not in self._busy and not task.done():
            self._busy[task] = None
            task.add_done_callback(self._ended)

    def _forget(self, task: asyncio.Task[object]) -> None:
        if task in self._busy:
            del self._busy[task]
            task.remove_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._busy.pop(task, None)
        self._look_again()

    # -- waiting for them -------------------------------------------------------------------

    async def settle(self, guard_s: float) -> bool:
        """Wait until all rest, and nothing more comes of it.

        Args:
            guard_s: Real seconds that they may take.

        Returns:
            Whether they rest; `names` tells which do not.
        """
        loop = asyncio.get_running_loop()
        guard_ends_at = loop.time() + guard_s
        # When nothing is about to be called, and no socket had anything in this turn, there is
        # nothing to wait for. Where that cannot be seen, turns count.
        waiting = calls_ahead(loop)
        quiet = 0
        # A callback of this turn may still wake a task.
        if self._all_rest():
            await asyncio.sleep(0)
        while True:
            if self._all_rest():
                quiet += _QUIET_TURNS if waiting is not None and not waiting else 1
                if quiet >= _QUIET_TURNS:
                    break
                await asyncio.sleep(0)
                continue
            quiet = 0
            self._settled = settled = loop.create_future()
            try:
                async with asyncio.timeout_at(guard_ends_at):
                    await settled
            except TimeoutError:
                # The tasks may have come to rest in the turn of the time-out.
                if not self._all_rest():
                    return False
            finally:
                self._settled = None
        for task in [task for task in self._busy if task in self._resting]:
            self._forget(task)
        return True

    def _all_rest(self) -> bool:
        return all(self._rests(task) for task in self._busy)

    def _rests(self, task: asyncio.Task[object]) -> bool:
        """Whether only the clock or a peer can make this task continue."""
        if task.done() or task in self._resting or task is self.mover:
            return True
        # A parent in `await child` or `await gather(...)` continues when its children do. Neither
        # asyncio nor uvloop has a public way to ask what a task awaits; without this attribute
        # the parent counts as busy until its children end.
        awaited = getattr(task, "_fut_waiter", None)
        children = getattr(awaited, "_children", None) or [awaited]
        pending = [child for child in children if child is not None and not child.done()]
        # Nobody knows who resolves a plain future, so a task that waits for one counts as busy.
        if not pending or not all(isinstance(child, asyncio.Task) for child in pending):
            return False
        rests = True
        # All of them are watched: any may be the last to rest.
        for child in pending:
            if not self._rests(child):
                rests = False
                self._watch(child)
        return rests

    def _watch(self, child: asyncio.Task[object]) -> None:
        if child not in self._watched:
            self._watched.add(child)
            child.add_done_callback(self._watched_ended)

    def _watched_ended(self, child: asyncio.Task[object]) -> None:
        self._watched.discard(child)
        self._look_again()

    def _look_again(self) -> None:
        settled = self._settled
        if settled is None:
            return
        if not self._busy:
            self._look()
        else:  # only in the next turn is it visible that a parent awaits a resting child
            settled.get_loop().call_soon(self._look)

    def _look(self) -> None:
        settled = self._settled
        if settled is not None and not settled.done() and self._all_rest():
            settled.set_result(None)
