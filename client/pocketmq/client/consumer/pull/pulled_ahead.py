"""Messages that a lite pull consumer has pulled ahead, and pollers that wait for them (L-5)."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.runtime.clock import Clock


class PulledBatch(NamedTuple):
    """The messages of one pull."""

    messages: list[MessageExt]
    buffer: ProcessQueue
    """Where they count until they are polled."""


class PulledAhead:
    """Batches in the order in which they came; each goes to one poller.

    Args:
        clock: What pollers wait on.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._batches: deque[PulledBatch] = deque()
        self._pollers: deque[asyncio.Future[None]] = deque()
        self._open = True

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, batch: PulledBatch) -> None:
        """Enqueue a batch, and wake the poller that has waited longest."""
        self._batches.append(batch)
        while self._pollers:
            poller = self._pollers.popleft()
            if not poller.done():
                poller.set_result(None)
                return

    def forget(self, queue: MessageQueue) -> None:
        """Drop a queue's batches."""
        self._batches = deque(batch for batch in self._batches if batch.buffer.queue != queue)

    def take(self) -> PulledBatch | None:
        """The next batch of a queue that is still ours."""
        while self._batches:
            batch = self._batches.popleft()
            if not batch.buffer.claim.dropped:
                return batch
        return None

    async def wait(self, timeout_s: float) -> PulledBatch | None:
        """As `take`, but wait for one to come; None when none did, or on `close`.

        Args:
            timeout_s: On the clock.
        """
        ends_at = self._clock.monotonic() + timeout_s
        while self._open and (left_s := ends_at - self._clock.monotonic()) > 0:
            poller: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._pollers.append(poller)
            try:
                async with self._clock.timeout(left_s):
                    with self._clock.peer_wait():
                        await poller
            except TimeoutError:
                return self.take()
            finally:
                if poller in self._pollers:
                    self._pollers.remove(poller)
            batch = self.take()
            if batch is not None:
                return batch
        return None

    def open(self) -> None:
        """Let pollers wait again."""
        self._open = True

    def close(self) -> None:
        """Forget everything; waiting pollers get nothing."""
        self._open = False
        self._batches.clear()
        for poller in self._pollers:
            if not poller.done():
                poller.set_result(None)
