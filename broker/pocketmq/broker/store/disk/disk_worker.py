"""Runs the disk's slow calls on a thread, so that the event loop never waits for the disk.

The store keeps all its state on the loop's thread. A job given to a worker makes system calls
and nothing else; its outcome comes back to the loop. There is no lock anywhere in the store.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

Job = Callable[[], None]
Done = Callable[[Exception | None], None]


class DiskWorker(Protocol):
    """Runs jobs in the order in which they were submitted."""

    def submit(self, job: Job, done: Done) -> None:
        """Run `job`, then call `done` on the loop, with the exception that ended it or None."""

    def close(self) -> None:
        """Return when every submitted job has run; their `done` calls may still be to come."""


async def run_on(worker: DiskWorker, job: Job) -> None:
    """Run a job on a worker, and wait until it has run; raises what ended it."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(failure: Exception | None) -> None:
        if outcome.done():
            return  # whoever waited was cancelled
        if failure is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(failure)

    worker.submit(job, done)
    await outcome


class ThreadWorker:
    """One thread of its own, woken directly: an executor's hops cost more than a fast disk's sync.

    Made, used and closed on the event loop's thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Done) -> None:
        self._jobs.put((job, done))

    def close(self) -> None:
        # None ends the thread after all jobs submitted before.
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        # Jobs run in the order of submission: a checkpoint must not reach the disk before its
        # queues.
        while (item := self._jobs.get()) is not None:
            job, done = item
            failure: Exception | None = None
            try:
                job()
            except Exception as exc:  # noqa: BLE001 - whatever it is, the loop decides what follows
                failure = exc
            # Report on the loop, which owns all state, so that no locks are needed.
            self._loop.call_soon_threadsafe(done, failure)


class InlineWorker:
    """No thread: a job has run, and its `done` too, when `submit` returns.

    For tools, tests and the deterministic simulation, where the order of events is the program's.
    """

    def submit(self, job: Job, done: Done) -> None:
        failure: Exception | None = None
        try:
            job()
        except Exception as exc:  # noqa: BLE001 - as in a thread, the caller decides what follows
            failure = exc
        done(failure)

    def close(self) -> None:
        """Nothing is ever outstanding."""
