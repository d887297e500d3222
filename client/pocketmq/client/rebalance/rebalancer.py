"""Carries the planner's instructions out for one consumer (C-22..C-30).

Collects what the planner needs (the topic's queues from the route table, the group's members
from a broker), then does what it says, one instruction after the other.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from pocketmq.client.api import ClientApi
from pocketmq.client.broker_addresses import BrokerAddresses
from pocketmq.client.rebalance.claims import Claim
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.rebalance.rebalance_events import NO_REBALANCE_EVENTS, RebalanceEvents
from pocketmq.protocol.allocation.steps import (
    AssignmentChanged,
    DropForeignQueue,
    DropQueue,
    Event,
    FindStartOffset,
    Instruction,
    LockQueues,
    QueueHeld,
    QueueReleased,
    QueuesLocked,
    RebalanceSoon,
    StartFound,
    StartPulling,
    StartUnknown,
    SubscriptionsAre,
    TopicAssigned,
    TopicSeen,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class RebalancedConsumer(Protocol):
    """The interface of a consumer for the rebalance."""

    async def release(self, claim: Claim) -> bool:
        """Persist the offset and release the queue; False while a listener uses it (C-30)."""
        ...

    def release_foreign(self, queue: MessageQueue) -> None:
        """Release a queue whose topic was unsubscribed (C-26)."""
        ...

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Ask brokers for queues; those granted (C-25.3)."""
        ...

    async def find_start_offset(self, queue: MessageQueue) -> int:
        """The offset to begin at; negative when it is not known (C-33)."""
        ...

    def lock_refused(self) -> None:
        """Another member holds a queue: look again before the period is over (C-25.3)."""
        ...

    def start_pulling(self, claim: Claim, offset: int) -> None:
        """Begin to pull a queue from an offset on (C-25.4)."""
        ...

    async def assignment_changed(
        self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        """The assignment of a topic has changed (C-27)."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """A broker's answer: what of a topic is ours (K-20)."""

    pulled: tuple[MessageQueue, ...]
    popped: tuple[MessageQueue, ...]
    """Queue id -1 stands for all queues of a broker (K-24)."""


class BrokerAllocation(Protocol):
    """Brokers share queues out, and say which are popped (K-165)."""

    async def ask(self, topic: str) -> BrokerShare | None:
        """Our share of a topic; None: keep what we have (K-22).

        Raises:
            NoAllocationError: the broker does not share queues out.
            PocketMQError: it could not be asked.
        """
        ...

    def take(self, topic: str, share: BrokerShare) -> bool:
        """Begin to pop what is new, stop what is gone; whether that was anything."""
        ...

    def take_only(self, topics: Collection[str]) -> None:
        """Stop popping every other topic."""
        ...


class NoAllocationError(PocketMQError):
    """A broker that shares no queues out: it is older than 5.0 (K-20)."""


class Rebalancer:
    """One consumer's rebalance.

    Args:
        planner: Decides.
        consumer: Acts.
        api: To ask for members.
        addresses: Where topics and brokers are.
        clock: Moments for the planner.
        choose: Picks the broker to ask; a seeded one makes runs repeatable.
        allocation: Brokers share queues out instead of the strategy; None: they do not.
        events: Told of shares and of queues that change hands.
    """

    def __init__(
        self,
        planner: RebalancePlanner,
        consumer: RebalancedConsumer,
        *,
        api: ClientApi,
        addresses: BrokerAddresses,
        clock: Clock,
        choose: Callable[[Sequence[str]], str] = random.choice,
        allocation: BrokerAllocation | None = None,
        events: RebalanceEvents = NO_REBALANCE_EVENTS,
    ) -> None:
        self._events = events
        self.planner = planner
        self._consumer = consumer
        self._api = api
        self._addresses = addresses
        self._clock = clock
        self._choose = choose
        self._allocation = allocation
        self._stopped = False
        self.log = log.bind(group=planner.group, client_id=planner.client_id)

    def stop(self) -> None:
        """Carry out nothing more; a round under way ends at its next instruction."""
        self._stopped = True

    # behaviour 4
    async def run(self, topics: Collection[str]) -> bool:
        """One round for every topic; whether all assigned queues are owned (C-22, C-28)."""
        balanced = True
        # Sorted, so that two runs of a simulation ask in the same order.
        for topic in sorted(topics):
            try:
                balanced &= await self._run_topic(topic)
            except PocketMQError as exc:
                balanced = False
                self.log.warning("rebalance.skipped", topic=topic, reason=str(exc))
            except Exception:  # a bug, ours or the strategy's: other topics go on (C-22)
                balanced = False
                self.log.exception("rebalance.failed", topic=topic)
            if self._stopped:
                return True
        if self._allocation is not None:
            # Topics that are no longer subscribed to are given up, too.
            self._allocation.take_only(topics)
        await self._carry_out(self.planner.on(SubscriptionsAre(topics), self._clock.monotonic()))
        return balanced and self.planner.is_balanced

    async def _run_topic(self, topic: str) -> bool:
        """One topic; False when the broker's answer is missing."""
        if self._allocation is not None:
            try:
                return await self._run_allocated(topic, self._allocation)
            # An old broker among new ones: share its topics out as 4.9 does (K-20).
            except NoAllocationError as exc:
                self.log.info("rebalance.by_client", topic=topic, reason=str(exc))
        await self._run_shared(topic)
        return True

    async def _run_allocated(self, topic: str, allocation: BrokerAllocation) -> bool:
        share = await allocation.ask(topic)
        if share is None:
            # A retry topic has no route until something was retried: nothing is missing then.
            return is_retry(topic) and self._addresses.routes.subscribe.get(topic) is None
        changed = allocation.take(topic, share)
        why = f"the broker says: {len(share.pulled)} to pull, {len(share.popped)} to pop"
        seen = TopicAssigned(topic, share.pulled, why)
        await self._carry_out(self.planner.on(seen, self._clock.monotonic()))
        if changed and not self._stopped:
            mine = (*self.planner.owned(topic), *share.popped)
            await self._consumer.assignment_changed(topic, mine, mine)
        return True

    async def _run_shared(self, topic: str) -> None:
        queues = self._addresses.routes.subscribe.get(topic)
        members: list[str] | None = None
        if queues is None:
            if not is_retry(topic):
                self.log.info("rebalance.no_route", topic=topic)
        elif not self.planner.broadcasting:
            members = await self._members(topic)
            if members is not None and members.count(self.planner.client_id) > 1:
                # Both would take the same share; nothing else would ever tell (B-28).
                self.log.warning("client_id.duplicated", topic=topic, members=members)
        if members is not None and queues is not None and self._events.sink.is_on:
            self._events.allocated(self.planner, topic, queues, members)
        # Unknown members or queues (None) change nothing: a broker that does not answer must not
        # stop consumption (C-24).
        before = self.planner.owned(topic)
        seen = TopicSeen(topic, queues, members)
        await self._carry_out(self.planner.on(seen, self._clock.monotonic()))
        after = self.planner.owned(topic)
        if before != after:
            if self._events.sink.is_on:
                self._events.changed(self.planner, before, topic)
            self.log.info(
                "queues.assigned",
                topic=topic,
                queues=[f"{queue.broker_name}:{queue.queue_id}" for queue in after],
                before=len(before),
                members=None if members is None else len(members),
            )

    # behaviour 31
    async def _members(self, topic: str) -> list[str] | None:
        """Client ids of the group as one broker of the topic knows them, or None (C-24)."""
        address = await self._addresses.of_topic(topic, self._choose)
        if address is None:
            return None
        try:
            return await self._api.consumer_ids(address, self.planner.group)
        except PocketMQError as exc:
            self.log.info("members.unknown", topic=topic, broker=address, reason=str(exc))
            return None

    async def _carry_out(self, first: list[Instruction]) -> None:
        todo = deque(first)
        while todo and not self._stopped:
            if isinstance(todo[0], FindStartOffset):
                # Independent questions to brokers: ask them at the same time.
                starts: list[FindStartOffset] = []
                while todo and isinstance(todo[0], FindStartOffset):
                    starts.append(todo.popleft())  # type: ignore[arg-type]  # looked at above
                events: Sequence[Event | None] = await asyncio.gather(
                    *(self._find_start(start.queue) for start in starts)
                )
            else:
                # One after the other: a queue is released before anything is locked or pulled for
                # it.
                events = (await self._do(todo.popleft()),)
            for event in events:
                if event is not None and not self._stopped:
                    todo.extend(self.planner.on(event, self._clock.monotonic()))

    async def _do(self, instruction: Instruction) -> Event | None:
        consumer, claims = self._consumer, self.planner.claims
        match instruction:
            case DropQueue(queue):
                claim = claims.get(queue)
                # A claim that is gone has nothing to release, but the planner waits for this event.
                if claim is None or await consumer.release(claim):
                    return QueueReleased(queue)
                return QueueHeld(queue)
            case DropForeignQueue(queue):
                consumer.release_foreign(queue)
            case LockQueues(topic, queues):
                return QueuesLocked(topic, frozenset(await consumer.lock(queues)))
            case StartPulling(queue, offset):
                claim = claims.get(queue)
                if claim is not None:
                    consumer.start_pulling(claim, offset)
            case RebalanceSoon():
                consumer.lock_refused()
            case AssignmentChanged(topic, all_queues, mine):
                await consumer.assignment_changed(topic, all_queues, mine)
            case FindStartOffset(queue):
                return await self._find_start(queue)
        return None

    # behaviour 28
    async def _find_start(self, queue: MessageQueue) -> Event:
        offset = await self._consumer.find_start_offset(queue)
        return StartFound(queue, offset) if offset >= 0 else StartUnknown(queue)
