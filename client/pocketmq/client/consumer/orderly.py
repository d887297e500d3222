"""Orderly consumption: one queue, one consumer, one message after the other (C-58..C-63).

A run takes messages of one queue to the side, calls the listener, and commits or puts them back. A
queue has at most one run at a time; up to `consume_thread_max` queues run at the same time.

    before each call            then
    queue dropped               the run ends
    lock lost or expired        ask for it again in 10 ms, the run ends
    60 s without a break        let others have a turn: again in 10 ms

    answer                      auto-commit (default)          by hand
    None, SUCCESS               commit                         nothing yet
    COMMIT                      commit, with a warning         commit
    ROLLBACK                    commit, with a warning         put back, again after the pause
    SUSPEND, error              put back, again after the pause; over max_reconsume_times: given to
                                the broker, which makes a dead letter of it, and committed
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

import structlog

from pocketmq.client.consumer.listener import (
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    ListenerCall,
)
from pocketmq.client.consumer.offset_table import OffsetTable
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.client.consumer.queue_locks import QueueLocks
from pocketmq.protocol import properties as names
from pocketmq.protocol.message import MessageExt, MessageQueue
from pocketmq.protocol.validation import retry_topic
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import PeriodicService
from pocketmq.runtime.profile import Profile
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

LOCK_INTERVAL_S: Final = 20.0
FIRST_LOCK_S: Final = 1.0
MAX_TIME_CONSUME_CONTINUOUSLY_S: Final = 60.0
TRY_LOCK_SOON_MS: Final = 10
TRY_LOCK_MS: Final = 100
LOCK_REFUSED_MS: Final = 3_000
SUSPEND_MIN_MS: Final = 10
SUSPEND_MAX_MS: Final = 30_000
CALLS_PER_TURN: Final = 32

SUSPEND: Final = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT

_Run = tuple[ProcessQueue, MessageQueue]


class GivesToBroker(Protocol):
    """How a message that failed too often leaves its queue (C-60)."""

    async def send_copy(self, message: MessageExt, *, times: int | None = None) -> bool:
        """Whether the broker has it."""
        ...


class OrderlyConsumeService:
    """Runs of all queues of one consumer.

    Args:
        group: Consumer group.
        clock: For pauses and locks.
        listener: `(messages, context)`, or one message.
        profile: How a queue is given up (C-30).
        offsets: Where progress is noted.
        gives_to_broker: For messages over the limit.
        locks: On the brokers; None when broadcasting.
        process_queues: The queues owned now.
        max_workers: Runs at the same time.
        batch_max_size: Messages per call.
        suspend_ms: Pause after a failure, unless the listener says another (C-61).
        max_reconsume_times: Deliveries after the first (C-60).
    """

    def __init__(
        self,
        group: str,
        clock: Clock,
        listener: ListenerCall,
        profile: Profile,
        *,
        offsets: OffsetTable,
        gives_to_broker: GivesToBroker,
        locks: QueueLocks | None,
        process_queues: Mapping[MessageQueue, ProcessQueue],
        max_workers: int,
        batch_max_size: int,
        suspend_ms: int,
        max_reconsume_times: int,
    ) -> None:
        self._group = group
        self._clock = clock
        self._listener = listener
        self._profile = profile
        self._offsets = offsets
        self._gives_to_broker = gives_to_broker
        self._locks = locks
        self._process_queues = process_queues
        self._max_workers = max_workers
        self._batch_max_size = batch_max_size
        self._suspend_ms = suspend_ms
        self._max_reconsume_times = max_reconsume_times
        self._retry_topic = retry_topic(group)
        self._line: deque[_Run] = deque()
        self._running: set[ProcessQueue] = set()
        """Queues with a run under way; a second one must wait for its end (C-58)."""
        self._again: set[ProcessQueue] = set()
        """Queues whose run was asked for while one was under way."""
        self._consume_locks: dict[ProcessQueue, asyncio.Lock] = {}
        """Held while a listener has messages of the queue; a removal waits for it (C-30)."""
        self._workers = TaskOwner(f"consume {group}")
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._renewal = PeriodicService(
            f"queue locks {group}",
            clock,
            LOCK_INTERVAL_S,
            self.renew_locks,
            initial_delay_s=FIRST_LOCK_S,
        )

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to renew locks; runs come with messages."""
        if self._locks is not None:
            self._renewal.start()

    async def stop(self, await_termination_s: float = 0.0) -> None:
        """End all runs, then give every lock back (C-71)."""
        self._stopped = True
        self._line.clear()
        await self._renewal.stop()
        current = asyncio.current_task()
        running = [task for task in self._tasks if task is not current]
        if running and await_termination_s > 0:
            await asyncio.wait(running, timeout=await_termination_s)
        await self._workers.stop()

    async def unlock_all(self) -> None:
        """Let others have every queue at once."""
        if self._locks is not None:
            await self._locks.unlock(list(self._process_queues), oneway=False)

    async def renew_locks(self) -> None:
        """C-52."""
        if self._locks is not None and not self._stopped:
            await self._locks.renew(self._process_queues)

    # -- runs -----------------------------------------------------------------------------------

    def submit(
        self,
        _messages: list[MessageExt],
        held: ProcessQueue,
        queue: MessageQueue,
        *,
        dispatch: bool,
    ) -> None:
        """Start a run when the process queue asks for one (C-50)."""
        if dispatch:
            self._submit(held, queue)

    def _submit(self, held: ProcessQueue, queue: MessageQueue) -> None:
        if self._stopped:
            return
        self._line.append((held, queue))
        if len(self._tasks) < self._max_workers:
            task = self._workers.start(self._work(), name=f"run {queue}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _submit_later(self, held: ProcessQueue, queue: MessageQueue, delay_ms: int) -> None:
        self._clock.call_at(
            self._clock.monotonic() + delay_ms / 1000, lambda: self._submit(held, queue)
        )

    async def _work(self) -> None:
        """A worker lives while there are runs; queues are long, so it is not one per message."""
        while self._line and not self._stopped:
            held, queue = self._line.popleft()
            if held in self._running:
                self._again.add(held)
                continue
            self._running.add(held)
            try:
                await self._run(held, queue)
            except Exception:  # a queue whose run is lost would stand still for ever
                log.exception("run.failed", group=self._group, queue=str(queue))
                held.put_back()
                self._submit_later(held, queue, self._suspend_time_ms(-1))
            finally:
                self._running.discard(held)
                if held in self._again:
                    self._again.discard(held)
                    self._submit(held, queue)

    async def _run(self, held: ProcessQueue, queue: MessageQueue) -> None:
        began_at = self._clock.monotonic()
        calls = 0
        while not held.dropped and not self._stopped:
            now = self._clock.monotonic()
            if self._locks is not None and (not held.locked or held.is_lock_expired(now)):
                first = calls == 0
                self._try_lock_later(held, queue, TRY_LOCK_MS if first else TRY_LOCK_SOON_MS)
                return
            if now - began_at > MAX_TIME_CONSUME_CONTINUOUSLY_S:
                self._submit_later(held, queue, TRY_LOCK_SOON_MS)
                return
            messages = held.take(self._batch_max_size)
            if not messages or not await self._consume(messages, held, queue):
                return
            calls += 1
            if calls % CALLS_PER_TURN == 0:
                await self._clock.sleep(0)

    async def _consume(
        self, messages: list[MessageExt], held: ProcessQueue, queue: MessageQueue
    ) -> bool:
        """One call of the listener; whether the run goes on."""
        context = ConsumeOrderlyContext(queue)
        for message in messages:
            if message.topic == self._retry_topic:
                message.topic = message.properties.get(names.RETRY_TOPIC, message.topic)
        async with self._consume_lock(held):
            if held.dropped:
                return False
            held.last_consume_at = self._clock.monotonic()
            try:
                with self._clock.peer_wait():  # a listener may wait for anything
                    status = await self._listener(messages, context)
            except Exception as exc:  # whatever it is, the messages come again (C-59)
                log.warning(
                    "listener.failed",
                    group=self._group,
                    queue=str(queue),
                    offset=messages[0].queue_offset,
                    reconsume_times=messages[0].reconsume_times,
                    exc_info=exc,
                )
                status = SUSPEND
            return await self._settle(messages, held, queue, status, context)

    async def _settle(
        self,
        messages: list[MessageExt],
        held: ProcessQueue,
        queue: MessageQueue,
        status: object,
        context: ConsumeOrderlyContext,
    ) -> bool:
        """Act on the answer (C-59); whether the run goes on."""
        answer = ConsumeOrderlyStatus.SUCCESS if status is None else status
        if not isinstance(answer, ConsumeOrderlyStatus):
            log.error(
                "listener.answer_unknown",
                group=self._group,
                listener=self._listener.name,
                answer=repr(status)[:100],
                advice="return None or a ConsumeOrderlyStatus",
            )
            answer = SUSPEND
        commit, goes_on = False, True
        if answer is SUSPEND:
            if await self._must_come_again(messages):
                held.put_back(messages)
                goes_on = False
            else:
                commit = context.auto_commit
        elif context.auto_commit:
            if answer is not ConsumeOrderlyStatus.SUCCESS:
                log.warning(
                    "listener.answer_unfit",
                    group=self._group,
                    answer=answer.value,
                    advice="COMMIT and ROLLBACK need context.auto_commit = False",
                )
            commit = True
        elif answer is ConsumeOrderlyStatus.COMMIT:
            commit = True
        elif answer is ConsumeOrderlyStatus.ROLLBACK:
            held.put_back()
            goes_on = False
        if not goes_on:
            self._submit_later(
                held, queue, self._suspend_time_ms(context.suspend_current_queue_time_ms)
            )
        if commit:
            offset = held.commit()
            if offset >= 0 and not held.dropped:
                self._offsets.update(queue, offset, increase_only=False)  # C-62
        return goes_on

    async def _must_come_again(self, messages: list[MessageExt]) -> bool:
        """Count the failure; messages over the limit go to the broker (C-60)."""
        again = False
        for message in messages:
            times = message.reconsume_times
            if times >= self._max_reconsume_times and await self._gives_to_broker.send_copy(
                message, times=times
            ):
                continue
            again = True
            message.reconsume_times = times + 1
        return again

    def _suspend_time_ms(self, asked_ms: int) -> int:
        wanted = self._suspend_ms if asked_ms == -1 else asked_ms
        return min(SUSPEND_MAX_MS, max(SUSPEND_MIN_MS, wanted))

    # -- locks ----------------------------------------------------------------------------------

    def _try_lock_later(self, held: ProcessQueue, queue: MessageQueue, delay_ms: int) -> None:
        """Ask for the lock again; then go on in 10 ms, or in 3 s when it was refused (C-58)."""

        async def lock() -> None:
            if held.dropped or self._locks is None:
                return
            granted = queue in await self._locks.lock([queue])
            held.locked = granted
            if granted:
                held.last_lock_at = self._clock.monotonic()
            self._submit_later(held, queue, TRY_LOCK_SOON_MS if granted else LOCK_REFUSED_MS)

        def start() -> None:
            if not self._stopped:
                self._workers.start(lock(), name=f"lock {queue}")

        self._clock.call_at(self._clock.monotonic() + delay_ms / 1000, start)

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Wait for a running listener, then unlock; False when it takes too long (C-30)."""
        lock = self._consume_lock(held)
        force_after_ms = self._profile.orderly_removal_force_after_ms
        try:
            async with self._clock.timeout(self._profile.orderly_removal_wait_ms / 1000):
                with self._clock.peer_wait():
                    await lock.acquire()
        except TimeoutError:
            held.lock_tries += 1
            age_s = self._clock.monotonic() - held.last_lock_at
            if force_after_ms is None or age_s * 1000 <= force_after_ms:
                log.info(
                    "queue.still_consumed",
                    group=self._group,
                    queue=str(queue),
                    tries=held.lock_tries,
                )
                return False
        else:
            lock.release()
        self._consume_locks.pop(held, None)
        await self._unlock(queue, held)
        return True

    async def _unlock(self, queue: MessageQueue, held: ProcessQueue) -> None:
        held.locked = False
        locks = self._locks
        if locks is None:
            return
        delay_ms = self._profile.orderly_unlock_delay_ms
        if not delay_ms or not held.has_cached:
            await locks.unlock([queue], oneway=True)
            return

        async def unlock() -> None:
            if queue not in self._process_queues:  # or it is ours again
                await locks.unlock([queue], oneway=True)

        def start() -> None:
            if not self._stopped:
                self._workers.start(unlock(), name=f"unlock {queue}")

        self._clock.call_at(self._clock.monotonic() + delay_ms / 1000, start)

    def _consume_lock(self, held: ProcessQueue) -> asyncio.Lock:
        lock = self._consume_locks.get(held)
        if lock is None:
            lock = self._consume_locks[held] = asyncio.Lock()
        return lock
