"""Queue locks on the brokers, which let an orderly queue have one consumer at a time (C-52, B-45).

Taken before a queue is pulled, renewed every 20 s, believed in for 30 s after the last renewal,
and kept by the broker for 60 s (T-12): a consumer that stops renewing stops consuming before
another may begin.

    renewed at 0 s, then cut off from the broker
    ours      |-------- believed in --------| 30 s   nothing is consumed from here on
    broker    |-------------- kept for us ---------------------| 60 s   another may lock it
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

import structlog

from pocketmq.client.instance import ClientInstance
from pocketmq.client.rebalance.claims import Claim, Claims
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class QueueLocks:
    """The locks of one orderly consumer.

    Args:
        group: Consumer group.
        instance: Its connections and client id, which is the lock's owner.
        claims: The queues that are ours; they are told what brokers answer.
    """

    def __init__(self, group: str, instance: ClientInstance, claims: Claims) -> None:
        self._group = group
        self._instance = instance
        self._claims = claims

    def owns(self, queue: MessageQueue) -> bool:
        """Whether the queue is ours, or still on its way out."""
        return queue in self._claims

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Ask the master of each broker; returns the queues locked for us now (B-46)."""
        asked = _by_broker(queues)
        answers = await asyncio.gather(
            *(self._lock_at(broker_name, mine) for broker_name, mine in asked.items())
        )
        return {queue for granted in answers if granted is not None for queue in granted}

    async def lock_again(self, claim: Claim) -> bool:
        """Ask for the lock of a queue that is ours; whether we have it now (C-58)."""
        granted = await self.lock([claim.queue])
        if self._claims.get(claim.queue) is claim:
            self._claims.locks_answered([claim.queue], granted, self._instance.clock.monotonic())
        return claim.queue in granted

    async def renew(self) -> None:
        """Lock everything we own again, and note which locks we have (C-52).

        A broker that does not answer changes nothing: what it granted before runs out by itself.
        """
        asked = _by_broker(claim.queue for claim in self._claims if not claim.dropped)
        answers = await asyncio.gather(
            *(self._lock_at(broker_name, mine) for broker_name, mine in asked.items())
        )
        now = self._instance.clock.monotonic()
        for mine, granted in zip(asked.values(), answers, strict=True):
            if granted is None:
                continue
            for queue in self._claims.locks_answered(mine, granted, now):
                log.warning("queue.lock_lost", group=self._group, queue=str(queue))

    async def unlock_all(self) -> None:
        """Unlock every queue at once; waits for the answers (C-71)."""
        await self.unlock([claim.queue for claim in self._claims], oneway=False)

    async def unlock(self, queues: Iterable[MessageQueue], *, oneway: bool) -> None:
        """Unlock them (B-48); a failure is logged, the lock expires after 60 s."""
        for broker_name, mine in _by_broker(queues).items():
            address = self._instance.routes.master(broker_name)
            if address is None:
                continue
            try:
                await self._instance.api.unlock_queues(
                    address, self._instance.client_id, self._group, mine, oneway=oneway
                )
            except PocketMQError as exc:
                log.warning(
                    "queues.unlock_failed", group=self._group, broker=broker_name, reason=str(exc)
                )

    async def _lock_at(
        self, broker_name: str, queues: Sequence[MessageQueue]
    ) -> Collection[MessageQueue] | None:
        address = self._instance.routes.master(broker_name)
        if address is None:
            return None
        try:
            granted = await self._instance.api.lock_queues(
                address, self._instance.client_id, self._group, queues
            )
        except PocketMQError as exc:
            log.warning(
                "queues.lock_failed", group=self._group, broker=broker_name, reason=str(exc)
            )
            for topic_queue in {queue.topic: queue for queue in queues}.values():
                self._instance.lookups.suspect_broker(topic_queue)
            return None
        return frozenset(granted)


def _by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        found[queue.broker_name].append(queue)
    return found
