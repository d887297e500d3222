"""Orderly consumption: one queue, one consumer, one message after the other (C-58..C-63).

A run takes messages out of one queue, calls the listener, and commits or puts them back. A
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
from collections.abc import Collection, Sequence
from typing import Final, cast

import structlog

from pocketmq.client.consumer.consuming.listener import (
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    ListenerCall,
)
from pocketmq.client.consumer.consuming.queue_locks import QueueLocks
from pocketmq.client.consumer.consuming.send_back import SendBack
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.operation.events.messages import Consumed
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.validation import retry_topic
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import PeriodicService
from pocketmq.runtime.profile.client import ClientProfile
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


class OrderlyConsumeService:
    """Runs of all queues of one consumer.

    Args:
        group: Consumer group.
        clock: For pauses and locks.
        profile: How a queue is given up (C-30).
        settings: Runs at the same time, messages per call, the pause after a failure (C-61), how
            often a message is tried (C-60).
        listener: `(messages, context)`, or one message.
        offsets: Offsets in memory, which runs update.
        gives_to_broker: For messages over the limit.
        locks: On the brokers; None when broadcasting.
    """

    def __init__(
        self,
        group: str,
        clock: Clock,
        profile: ClientProfile,
        settings: PushSettings,
        listener: ListenerCall,
        *,
        offsets: OffsetTable,
        gives_to_broker: SendBack,
        locks: QueueLocks | None,
    ) -> None:
        self._group = group
        self._clock = clock
        self._listener = listener
        self._profile = profile
        self._offsets = offsets
        self._gives_to_broker = gives_to_broker
        self._locks = locks
        self._max_workers = settings.consume_thread_max
        self._batch_max_size = settings.batch_max_size(one_by_one=listener.one_by_one)
        self._suspend_ms = settings.suspend_current_queue_time_ms
        self._max_reconsume_times = settings.max_retries(orderly=True)
        self._retry_topic = retry_topic(group)
        self._line: deque[ProcessQueue] = deque()
        self._running: set[MessageQueue] = set()
        """Queues with a run under way; a second one must wait for its end (C-58), also one that
        was taken anew meanwhile: after a reset the old listener may still be at work (C-70)."""
        self._again: dict[MessageQueue, ProcessQueue] = {}
        """Queues whose run was asked for while one was under way."""
        self._consume_locks: dict[MessageQueue, asyncio.Lock] = {}
        """Held while a listener has messages of the queue; a removal waits for it (C-30), also the
        removal of a queue that was taken anew while the listener was at work (C-70)."""
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
        # A listener may stop its own consumer; its task cannot wait for itself.
        current = asyncio.current_task()
        running = [task for task in self._tasks if task is not current]
        if running and await_termination_s > 0:
            await asyncio.wait(running, timeout=await_termination_s)
        await self._workers.stop()

    async def unlock_all(self) -> None:
        """Let others have every queue at once (C-71)."""
        if self._locks is not None:
            await self._locks.unlock_all()

    async def renew_locks(self) -> None:
        """Lock every queue that is ours again, before others may (C-52)."""
        if self._locks is not None and not self._stopped:
            await self._locks.renew()

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Ask brokers for queues; those granted, which are all when broadcasting (C-25.3)."""
        return queues if self._locks is None else await self._locks.lock(queues)

    # -- runs -----------------------------------------------------------------------------------

    def submit(
        self,
        _messages: list[MessageExt],
        buffer: ProcessQueue,
        *,
        dispatch: bool,
    ) -> None:
        """Start a run when the process queue asks for one (C-50)."""
        if dispatch:
            self._submit(buffer)

    def _submit(self, buffer: ProcessQueue) -> None:
        if self._stopped:
            return
        self._line.append(buffer)
        # With all workers busy the queue waits in line: the first that is done takes it.
        if len(self._tasks) < self._max_workers:
            task = self._workers.start(self._work(), name=f"run {buffer.queue}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _submit_later(self, buffer: ProcessQueue, delay_ms: int) -> None:
        self._clock.call_at(self._clock.monotonic() + delay_ms / 1000, lambda: self._submit(buffer))

    async def _work(self) -> None:
        """A worker lives while there are runs; queues are long, so it is not one per message."""
        while self._line and not self._stopped:
            buffer = self._line.popleft()
            queue = buffer.queue
            # Two runs of one queue would give its messages to two listeners at once (C-58). The
            # present run submits the queue again when it ends.
            if queue in self._running:
                self._again[queue] = buffer
                continue
            self._running.add(queue)
            try:
                await self._run(buffer)
            except Exception:  # a queue whose run is lost would never be consumed again
                log.exception("run.failed", group=self._group, queue=str(buffer.queue))
                buffer.put_back()
                self._submit_later(buffer, self._suspend_time_ms(-1))
            finally:
                self._running.discard(queue)
                again = self._again.pop(queue, None)
                if again is not None:
                    self._submit(again)
        # At once: the task's callback comes a turn later, and who submits meanwhile would find
        # all workers at work and leave the run to one that has ended.
        self._tasks.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _run(self, buffer: ProcessQueue) -> None:
        claim, began_at = buffer.claim, self._clock.monotonic()
        calls = 0
        while not claim.dropped and not self._stopped:
            now = self._clock.monotonic()
            # Check the lock before each call: a broker gives it away 60 s after the last renewal,
            # and another member may be consuming by now (C-58).
            if self._locks is not None and (
                not buffer.claim.locked or buffer.claim.is_lock_expired(now)
            ):
                first = calls == 0
                self._try_lock_later(buffer, TRY_LOCK_MS if first else TRY_LOCK_SOON_MS)
                return
            # A queue that never runs dry must not keep its worker from all others (C-58).
            if now - began_at > MAX_TIME_CONSUME_CONTINUOUSLY_S:
                self._submit_later(buffer, TRY_LOCK_SOON_MS)
                return
            messages = buffer.take(self._batch_max_size)
            if not messages or not await self._consume(messages, buffer):
                return
            calls += 1
            if calls % CALLS_PER_TURN == 0:
                # A listener that never waits would keep the loop to itself.
                await self._clock.sleep(0)

    async def _consume(self, messages: list[MessageExt], buffer: ProcessQueue) -> bool:
        """One call of the listener; whether the run goes on."""
        context = ConsumeOrderlyContext(buffer.queue)
        for message in messages:
            # Listeners know the topic that was sent to, not the retry topic it came back by (C-54).
            if message.topic == self._retry_topic:
                message.topic = message.properties.get(names.RETRY_TOPIC, message.topic)
        async with self._consume_lock(buffer):
            if buffer.claim.dropped:
                return False
            # Shown to tools (`consumerStatus`), which look for queues that stand still.
            buffer.last_consume_at = self._clock.monotonic()
            try:
                with self._clock.peer_wait():  # a listener may wait for anything
                    status = await self._listener(messages, context)
            except Exception as exc:  # any exception: the messages are delivered again (C-59)
                log.warning(
                    "listener.failed",
                    group=self._group,
                    queue=str(buffer.queue),
                    offset=messages[0].queue_offset,
                    reconsume_times=messages[0].reconsume_times,
                    exc_info=exc,
                )
                status = SUSPEND
            events = self._listener.events
            if events.sink.is_on:
                said: Consumed = "suspend" if status is SUSPEND else "success"
                events.consumed(messages, buffer.queue, said)
            return await self._settle(messages, buffer, status, context)

    async def _settle(
        self,
        messages: list[MessageExt],
        buffer: ProcessQueue,
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
            # Neither success nor failure was said: consuming again is safe, skipping is not.
            answer = SUSPEND
        commit, goes_on = False, True
        if answer is SUSPEND:
            if await self._must_come_again(messages):
                buffer.put_back(messages)
                goes_on = False
            else:
                # All messages went to the broker, so the queue goes on after them. Without auto
                # commit, the listener decides when to commit.
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
            buffer.put_back()
            goes_on = False
        # Nothing else starts the queue again: its messages are here, and no pull brings new ones.
        if not goes_on:
            self._submit_later(buffer, self._suspend_time_ms(context.suspend_current_queue_time_ms))
        if commit:
            offset = buffer.commit()
            # A queue that was given up may be with another member, whose offset must not go back.
            if offset >= 0 and not buffer.claim.dropped:
                self._offsets.update(buffer.queue, offset, increase_only=False)  # C-62
        return goes_on

    # behaviours 67 and 68
    async def _must_come_again(self, messages: list[MessageExt]) -> bool:
        """Count the failure; messages over the limit go to the broker (C-60)."""
        again = False
        for message in messages:
            times = message.reconsume_times
            told = times + 1 if self._profile.ordered_copies_count_the_next_try else times
            # A message that cannot be sent to the broker stays here and is tried again.
            if times >= self._max_reconsume_times and await self._gives_to_broker.send_copy(
                message, times=told
            ):
                continue
            again = True
            message.reconsume_times = times + 1
        return again

    def _suspend_time_ms(self, asked_ms: int) -> int:
        wanted = self._suspend_ms if asked_ms == -1 else asked_ms
        return min(SUSPEND_MAX_MS, max(SUSPEND_MIN_MS, wanted))

    # -- locks ----------------------------------------------------------------------------------

    def _try_lock_later(self, buffer: ProcessQueue, delay_ms: int) -> None:
        """Ask for the lock again; then go on in 10 ms, or in 3 s when it was refused (C-58)."""

        async def lock() -> None:
            if buffer.claim.dropped or self._locks is None:
                return
            # A refusal means that another member has not let go yet; asking every 10 ms would only
            # load the broker.
            granted = await self._locks.lock_again(buffer.claim)
            self._submit_later(buffer, TRY_LOCK_SOON_MS if granted else LOCK_REFUSED_MS)

        def start() -> None:
            if not self._stopped:
                self._workers.start(lock(), name=f"lock {buffer.queue}")

        self._clock.call_at(self._clock.monotonic() + delay_ms / 1000, start)

    async def release(self, buffer: ProcessQueue) -> bool:
        """Wait for a running listener, then unlock; False when it takes too long (C-30).

        Broadcasting consumers have no locks and wait for nobody.
        """
        if self._locks is None:
            self._consume_locks.pop(buffer.queue, None)
            return True
        lock, claim = self._consume_lock(buffer), buffer.claim
        force_after_ms = self._profile.orderly_removal_force_after_ms
        try:
            async with self._clock.timeout(self._profile.orderly_removal_wait_ms / 1000):
                with self._clock.peer_wait():
                    await lock.acquire()
        except TimeoutError:
            # A listener that hangs would keep the queue for ever: 5.x lets go of it when the lock
            # was not renewed for 20 s, 4.9 waits on.
            age_s = self._clock.monotonic() - claim.last_lock_at
            if force_after_ms is None or age_s * 1000 <= force_after_ms:
                log.info(
                    "queue.still_consumed",
                    group=self._group,
                    queue=str(buffer.queue),
                    tries=claim.release_tries + 1,
                )
                return False
        else:
            lock.release()
        if not lock.locked():  # else a listener keeps it that was waited for long enough
            self._consume_locks.pop(buffer.queue, None)
        await self._unlock(buffer)
        return True

    async def listener_done(self, queue: MessageQueue, limit_s: float) -> bool:
        """Wait until no listener has messages of a queue; False when that takes too long (C-70)."""
        lock = self._consume_locks.get(queue)
        if lock is None or not lock.locked():
            return True
        try:
            async with self._clock.timeout(limit_s):
                with self._clock.peer_wait():
                    await lock.acquire()
        except TimeoutError:
            return False
        lock.release()
        return True

    # behaviour 16
    async def _unlock(self, buffer: ProcessQueue) -> None:
        queue, locks = buffer.queue, self._locks
        assert locks is not None, "asked for by `release` only"
        delay_ms = self._profile.orderly_unlock_delay_ms
        # A listener may still have a cached message: 4.9 gives it 20 s before another member
        # begins.
        if not delay_ms or not buffer.has_cached:
            await locks.unlock([queue], oneway=True)
            return

        async def unlock() -> None:
            if not locks.owns(queue):  # or it is ours again
                await locks.unlock([queue], oneway=True)

        def start() -> None:
            if not self._stopped:
                self._workers.start(unlock(), name=f"unlock {queue}")

        self._clock.call_at(self._clock.monotonic() + delay_ms / 1000, start)

    def _consume_lock(self, buffer: ProcessQueue) -> asyncio.Lock:
        return self._consume_locks.setdefault(buffer.queue, asyncio.Lock())
