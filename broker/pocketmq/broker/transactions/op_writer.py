"""Writes op records: which half messages are done (X-25)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.store import PutStatus
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.broker.subject import Service
from pocketmq.broker.transactions.half_messages import op_record
from pocketmq.broker.transactions.op_batches import OpBatches
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

RETRY_S = 1.0
"""After an op record could not be stored."""


class OpWriter(Service):
    """Collects what is done, and writes it as op records.

    Args:
        batches: what waits.
        puts: where the records go.
        address: their hosts.
        clock: says when.
        defer: calls at the end of this turn of the loop; given, everything is written then.
    """

    def __init__(
        self,
        batches: OpBatches,
        puts: SafePuts,
        address: BrokerAddress,
        clock: Clock,
        defer: Callable[[Callable[[], None]], object] | None,
    ) -> None:
        self._batches = batches
        self._puts = puts
        self._address = address
        self._clock = clock
        self._defer = defer
        self._deferred = False
        self._service = PeriodicService("write op records", clock, RETRY_S, self._run)

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()
        # Write everything, due or not: producers would be asked again about the rest.
        self._write(self._batches.waiting())

    def add(self, queue_id: int, half_offsets: Sequence[int]) -> None:
        """Half messages are committed or rolled back, and what follows of them is stored."""
        now = self._clock.monotonic()
        began = not self._batches.waiting()
        self._batches.add(queue_id, half_offsets, now)
        # At the end of the loop's turn, so that one record names all that was decided in it.
        if self._defer is not None:
            if not self._deferred:
                self._deferred = True
                self._defer(self._write_all)
        elif began or self._batches.due(now):
            # Wake the service for the first offset, which starts the interval, and for a full
            # batch.
            self._service.wakeup()

    def forget(self) -> None:
        """This broker is a slave now: drop what is not written."""
        self._batches.forget()

    def _write_all(self) -> None:
        self._deferred = False
        # The service tries again: the store may take it a second later.
        if not self._write(self._batches.waiting()):
            self._service.wakeup()

    def _run(self) -> float:
        """Write what is due; seconds until more is."""
        now = self._clock.monotonic()
        if not self._write(self._batches.due(now)):
            return RETRY_S
        wait_s = self._batches.next_due_in_s(self._clock.monotonic())
        return AT_REST if wait_s is None else wait_s

    def _write(self, queue_ids: list[int]) -> bool:
        """All that waits for these queues; False when some could not be stored."""
        for queue_id in queue_ids:
            # One record may not hold the whole batch.
            while queue_id in self._batches.waiting():
                body = self._batches.take(queue_id, self._clock.monotonic())
                record = op_record(body, queue_id, self._clock.time_ms(), self._address.packed)
                status = self._puts.put(record).status
                if status is not PutStatus.PUT_OK:
                    self._batches.put_back(queue_id, body)
                    log.warning("op_record.put_failed", queue_id=queue_id, status=status.name)
                    return False
        return True
