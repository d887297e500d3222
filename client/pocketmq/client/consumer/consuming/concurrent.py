"""Concurrent consumption: many messages at a time, in no order (C-53..C-57).

Pulled messages wait in one queue in memory. Up to `consume_thread_max` workers take them from it; a
worker is a task that lives as long as the consumer, so that there is no task per message. A worker
that takes a message while more are waiting wakes another, so a listener that never waits needs
only one.

What becomes of a message by the listener's answer stands in `concurrent_answers.py`. What cannot be
given back to the broker is handed to the listener again in 5 s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from operator import length_hint
from typing import Final, TypeAlias

import structlog

from pocketmq.client.consumer.consuming.batch_records import BatchRecords, Holder
from pocketmq.client.consumer.consuming.concurrent_answers import LATER, ConcurrentAnswers
from pocketmq.client.consumer.consuming.listener import (
    ALL_ACKED,
    ConsumeConcurrentlyContext,
    ListenerCall,
)
from pocketmq.client.consumer.consuming.send_back import SendBack
from pocketmq.client.consumer.popping.popped_queue import PopQueue
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.operation.events.messages import Consumed
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.runtime.clock import NO_WAIT, Clock
from pocketmq.runtime.periodic import PeriodicService
from pocketmq.runtime.profile.client import ClientProfile
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

RESUBMIT_DELAY_MS: Final = 5_000
MESSAGES_PER_TURN: Final = 32
"""Messages after which a worker yields to the loop; a listener that never waits would not."""
CLEAN_ROUNDS: Final = 16
CLEAN_DELAY_LEVEL: Final = 3

_UNSEEN_CONTEXT: Final = ConsumeConcurrentlyContext(MessageQueue("", "", -1))
"""For listeners that get no context, and so cannot change it."""

Work: TypeAlias = tuple[list[MessageExt], Holder]
"""Messages for one call of the listener, and where they are kept until they are done."""

One: TypeAlias = tuple[MessageExt, Holder]
"""A message for an iterator, and where it is kept until it is done."""


class ConcurrentConsumeService:
    """Hands messages to a listener, or to iterators.

    Args:
        group: Consumer group.
        clock: For start times and the retry in 5 s.
        profile: Whether failures of a queue that was given up are sent back (C-56).
        settings: Calls at the same time, messages per call, how long a call may take.
        listener: Consumes. None: iterators take the messages by `next_now`.
        offsets: Offsets in memory, which this service updates.
        sends_back: For failures.
        buffers: The queues that are consumed now, to find messages that take too long (C-53).
    """

    def __init__(
        self,
        group: str,
        clock: Clock,
        profile: ClientProfile,
        settings: PushSettings,
        listener: ListenerCall | None,
        *,
        offsets: OffsetTable,
        sends_back: SendBack,
        buffers: Mapping[MessageQueue, ProcessQueue],
    ) -> None:
        self._group = group
        self._clock = clock
        self._listener = listener
        self.batch_records = BatchRecords(group, clock, offsets)
        self._prepare_one = self.batch_records.prepare_one
        self._done_one = self.batch_records.done_one
        self._sends_back = sends_back
        self._max_workers = settings.consume_thread_max
        self._batch_max_size = settings.batch_max_size(
            one_by_one=listener is None or listener.one_by_one
        )
        self._consume_timeout_s = settings.consume_timeout_min * 60
        self._buffers = buffers
        self._name = "iterator" if listener is None else listener.name
        self._answers = ConcurrentAnswers(
            group,
            self._name,
            self.batch_records,
            sends_back,
            is_broadcasting=settings.is_broadcasting,
            skips_dropped=profile.skip_send_back_of_dropped,
        )
        self._line: deque[Work] = deque()
        self._one_by_one = listener is None or listener.one_by_one
        self._waits_are_told = clock.peer_wait() is not NO_WAIT
        self._begun: Iterator[MessageExt] = iter(())
        """One by one: what nobody has taken yet of the last work of the line."""
        self._begun_holder: Holder | None = None
        self._idle: list[asyncio.Future[None]] = []
        self._waking = False
        self._workers = TaskOwner(f"consume {group}")
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self._cleaner = PeriodicService(
            f"clean expired {group}", clock, self._consume_timeout_s, self.clean_expired
        )

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin; workers come as they are needed."""
        self._cleaner.start()

    async def stop(self, await_termination_s: float = 0.0) -> None:
        """End: no listener call begins from now on, running async ones are cancelled.

        Args:
            await_termination_s: Real seconds for running calls to end by themselves (C-71).
        """
        self._stopped = True
        self._line.clear()
        self._begun = iter(())
        await self._cleaner.stop()
        for waiter in self._idle:
            if not waiter.done():
                waiter.set_result(None)
        self._idle.clear()
        # A listener may stop its own consumer; its task cannot wait for itself.
        current = asyncio.current_task()
        running = [task for task in self._tasks if not task.done() and task is not current]
        if running and await_termination_s > 0:
            await asyncio.wait(running, timeout=await_termination_s)
        await self._workers.stop()

    # -- queues are taken and given up ----------------------------------------------------------

    async def lock(self, queues: Sequence[MessageQueue]) -> Sequence[MessageQueue]:
        """All of them: concurrent consumption needs no locks."""
        return queues

    async def release(self, _buffer: ProcessQueue) -> bool:
        """At once: a listener that still runs finds its queue dropped."""
        return True

    async def unlock_all(self) -> None:
        """Nothing is locked."""

    # -- messages in ----------------------------------------------------------------------------

    def submit(
        self,
        messages: list[MessageExt],
        buffer: ProcessQueue,
        *,
        dispatch: bool,
    ) -> None:
        """Enqueue messages of one queue, in batches (C-54); `dispatch` is for orderly services."""
        self._enqueue(messages, buffer)

    def submit_popped(self, messages: list[MessageExt], popped: PopQueue) -> None:
        """Enqueue popped messages (K-168)."""
        self._enqueue(messages, popped)

    def _enqueue(self, messages: list[MessageExt], buffer: Holder) -> None:
        size = self._batch_max_size
        if self._one_by_one:
            self._line.append((messages, buffer))
        else:
            # Batches never mix two queues: their offsets are committed by queue.
            for start in range(0, len(messages), size):
                self._line.append((messages[start : start + size], buffer))
        self._wake_one()

    def _wake_one(self) -> None:
        """Wake or start one more worker, unless one is being woken already."""
        # Wake one at a time: it wakes the next if work is left, so that a trickle of messages
        # occupies one worker and not twenty.
        if self._waking or self._stopped or not (self._line or length_hint(self._begun)):
            return
        # A waiter may be done already: `stop` has ended it, or its task was cancelled.
        while self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                self._waking = True
                waiter.set_result(None)
                return
        if self._listener is not None and len(self._tasks) < self._max_workers:
            self._waking = True
            name = f"worker {len(self._tasks)}"
            self._tasks.append(self._workers.start(self._work(), name=name))

    async def _work(self) -> None:
        listener = self._listener
        while listener is not None and not self._has_stopped():
            self._waking = False
            try:
                if listener.one_by_one:
                    await self._consume_singles(listener)
                else:
                    await self._consume_batches(listener)
            except Exception:  # a worker that ended would leave the others' messages behind
                log.exception("worker.failed", group=self._group)
                continue
            # After `stop`, an idle worker would never be woken.
            if self._has_stopped():
                return
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            await waiter

    def _has_stopped(self) -> bool:
        return self._stopped  # asked anew after each await

    # -- the listener ---------------------------------------------------------------------------

    async def _consume_singles(self, listener: ListenerCall) -> None:
        """Hand over one message after the other until none is left; one frame for all of them."""
        done = 0
        while (found := self.next_now()) is not None:
            message, buffer = found
            # This worker is about to wait for a listener, so whatever is left needs another one.
            if not self._waking and (self._idle or len(self._tasks) < self._max_workers):
                self._wake_one()
            began = listener.began()
            try:
                # A real clock needs no `peer_wait`, which would cost as much as a short listener.
                if self._waits_are_told:
                    with self._clock.peer_wait():  # a listener may wait for anything
                        status = await listener.begin_one(message)
                else:
                    status = await listener.begin_one(message)
            except Exception as exc:  # noqa: BLE001 - logged; any: it is delivered again (C-54)
                status = self._failed([message], buffer, exc)
            finally:
                listener.ended(began)
            # The usual case needs no `_answered` coroutine.
            if status is None and not listener.events.sink.is_on:
                try:
                    self._done_one(message, buffer)
                except Exception as exc:  # noqa: BLE001 - logged, and handed out again
                    self._run_failed([message], buffer, exc)
            else:
                await self._answered([message], buffer, status, _UNSEEN_CONTEXT)
            done += 1
            if done % MESSAGES_PER_TURN == 0:
                await self._clock.sleep(0)

    async def _consume_batches(self, listener: ListenerCall) -> None:
        """Hand over one batch after the other until none is left."""
        line = self._line
        done = 0
        while line:
            messages, buffer = line.popleft()
            if line and not self._waking:
                self._wake_one()
            try:
                # Nothing is left of the batch when its queue was given up or reset meanwhile.
                if not self.batch_records.prepare(messages, buffer):
                    continue
            except Exception as exc:  # noqa: BLE001 - logged, and handed out again
                self._run_failed(messages, buffer, exc)
                continue
            context = ConsumeConcurrentlyContext(buffer.queue)
            began = listener.began()
            try:
                with self._clock.peer_wait():
                    status = await listener.begin(messages, context)
            except Exception as exc:  # noqa: BLE001 - as above
                status = self._failed(messages, buffer, exc)
            finally:
                listener.ended(began)
            await self._answered(messages, buffer, status, context)
            done += 1
            if done % MESSAGES_PER_TURN == 0:
                await self._clock.sleep(0)

    def _failed(self, messages: list[MessageExt], buffer: Holder, error: Exception) -> object:
        log.warning(
            "listener.failed",
            group=self._group,
            queue=str(buffer.queue),
            offset=messages[0].queue_offset,
            reconsume_times=messages[0].reconsume_times,
            exc_info=error,
        )
        return LATER

    async def _answered(
        self,
        messages: list[MessageExt],
        buffer: Holder,
        status: object,
        context: ConsumeConcurrentlyContext,
    ) -> None:
        """The listener has answered; never raises, because a worker that ended would leave its
        messages behind for ever."""
        listener = self._listener
        try:
            if listener is not None and listener.events.sink.is_on:
                said: Consumed = "later" if status is LATER else "success"
                listener.events.consumed(messages, buffer.queue, said)
            if status is None and context.ack_index == ALL_ACKED:
                self.batch_records.done(messages, buffer)
            # After a reset the same offsets may be here again, as other deliveries: this answer is
            # not about them (C-70).
            elif not self.batch_records.is_void(messages, buffer):
                kept = await self._answers.settle(messages, buffer, status, context)
                if kept:
                    self._submit_later(kept, buffer)
        except Exception as exc:  # noqa: BLE001 - logged, and handed out again
            self._run_failed(messages, buffer, exc)

    def _run_failed(self, messages: list[MessageExt], buffer: Holder, error: Exception) -> None:
        """What is done before or after a call of the listener has failed: hand out again in 5 s."""
        log.error("run.failed", group=self._group, queue=str(buffer.queue), exc_info=error)
        self._submit_later(messages, buffer)

    def _submit_later(self, messages: list[MessageExt], buffer: Holder) -> None:
        def again() -> None:
            if not self._stopped:
                self._line.append((messages, buffer))
                self._wake_one()

        self._clock.call_at(self._clock.monotonic() + RESUBMIT_DELAY_MS / 1000, again)

    # -- iterating ------------------------------------------------------------------------------

    def next_now(self) -> One | None:
        """The next message, already prepared, if one is waiting; else await `next_message`.

        Hand it to `batch_records.done_one` when it is consumed. All iterators, or all workers, take
        from the same works: what one of them leaves the next one gets.
        """
        while True:
            holder = self._begun_holder
            if holder is not None:
                for message in self._begun:
                    try:
                        if self._prepare_one(message, holder):
                            return message, holder
                    except Exception as exc:  # noqa: BLE001 - logged, and handed out again
                        self._run_failed([message], holder, exc)
            if not self._line:
                return None
            messages, self._begun_holder = self._line.popleft()
            self._begun = iter(messages)

    async def next_message(self) -> One | None:
        """The next message, already prepared; None when the consumer has stopped."""
        while not self._stopped:
            found = self.next_now()
            if found is not None:
                return found
            self._waking = False
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._idle:
                    self._idle.remove(waiter)
            self._waking = False
            found = self.next_now()
            if found is not None:
                self._wake_one()  # another iterator: what we found may take long
                return found
        return None

    async def let_others_run(self) -> None:
        """One turn of the loop for everybody else."""
        await self._clock.sleep(0)

    # -- messages that take too long ------------------------------------------------------------

    async def clean_expired(self) -> None:
        """Send back what stands at the head of its queue for too long (C-53)."""
        for buffer in list(self._buffers.values()):
            for _ in range(CLEAN_ROUNDS):
                message = buffer.expired_first(self._clock.monotonic(), self._consume_timeout_s)
                if message is None or buffer.claim.dropped:
                    break
                log.warning(
                    "message.expired",
                    group=self._group,
                    topic=message.topic,
                    queue_id=message.queue_id,
                    offset=message.queue_offset,
                    listener=self._name,
                )
                if not await self._sends_back.send_back(message, CLEAN_DELAY_LEVEL):
                    break
                if buffer.first_offset == message.queue_offset:
                    buffer.remove([message])
