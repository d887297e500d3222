"""LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42): queues of orderly consumers (B-45 to B-48)."""

from __future__ import annotations

from pocketmq.broker.locks.queue_locks import RebalanceLockManager
from pocketmq.operation.events.groups import QueuesLocked, QueuesUnlocked, queue_texts
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.bodies.clients import LockBatchBody, LockedQueues
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.runtime.clock import Clock


class LockProcessor:
    """Locks and unlocks queues for one member of a group.

    Args:
        locks: who holds what.
        clock: ages them.
        budget: how many there may be.
        events: told of both.
        broker: name of the broker.
    """

    def __init__(
        self,
        locks: RebalanceLockManager,
        clock: Clock,
        budget: BudgetSource = default_budget,
        *,
        events: EventSink = NO_EVENTS,
        broker: str = "",
    ) -> None:
        self._events = events
        self._broker = broker
        self._budget = budget
        self._locks = locks
        self._clock = clock

    @handles(RequestCode.LOCK_BATCH_MQ)
    def lock(self, _peer: Peer, request: Command) -> Reply:
        """The queues that the caller holds now."""
        body = decode_request_body(request, LockBatchBody)
        self._check(body)
        granted = self._locks.lock(
            body.consumer_group, body.client_id, body.mq_set, self._clock.monotonic()
        )
        if self._events.is_on:
            refused = set(body.mq_set).difference(granted)
            self._events.emit(
                QueuesLocked(
                    *self._events.stamp(),
                    group=body.consumer_group,
                    client_id=body.client_id,
                    broker=self._broker,
                    queues=queue_texts(granted),
                    refused=queue_texts(refused),
                )
            )
        return request.reply(
            body=encode_body(LockedQueues(lock_ok_mq_set=granted), request.encoding)
        )

    @handles(RequestCode.UNLOCK_BATCH_MQ)
    def unlock(self, _peer: Peer, request: Command) -> Reply:
        """Release the caller's own locks; always answered with success."""
        body = decode_request_body(request, LockBatchBody)
        self._locks.unlock(body.consumer_group, body.client_id, body.mq_set)
        if self._events.is_on:
            self._events.emit(
                QueuesUnlocked(
                    *self._events.stamp(),
                    group=body.consumer_group,
                    client_id=body.client_id,
                    broker=self._broker,
                    queues=queue_texts(body.mq_set),
                )
            )
        return request.reply()

    def _check(self, body: LockBatchBody) -> None:
        """Pass what strangers may have kept here for a minute."""
        names = [body.consumer_group, body.client_id]
        names += [name for queue in body.mq_set for name in (queue.topic, queue.broker_name)]
        budget = self._budget()
        budget.check("name_chars", max(map(len, names)), "characters of a name")
        # Counting all requested queues is cheap; the new ones are counted only near the limit.
        if self._locks.count + len(body.mq_set) > budget.queue_locks:
            locked = self._locks.count + self._locks.unknown(body.consumer_group, body.mq_set)
            budget.check("queue_locks", locked, "locks of queues")
