"""A lite pull consumer's queues: how they come, what each pull brings, and how they go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pocketmq.client.consumer.offset_store import OffsetStore
from pocketmq.client.consumer.offset_table import Offset, ReadOffsetType
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.client.consumer.pull_member import BROKER_SUSPEND_MS
from pocketmq.client.consumer.pull_plan import (
    BeforePull,
    PullRequest,
    PullStatus,
    Step,
    before_pull,
)
from pocketmq.client.consumer.pulled_ahead import Batch, PulledAhead
from pocketmq.client.consumer.start_offset import StartOffsets
from pocketmq.client.instance import ClientInstance
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol.headers.pull import (
    LitePullMessageRequestHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)
from pocketmq.protocol.message import MessageExt, MessageQueue
from pocketmq.protocol.scalars import PullSysFlag
from pocketmq.protocol.subscription import TAG

if TYPE_CHECKING:
    from pocketmq.client.consumer.lite_pull import LitePullConsumer

FLOW_CONTROL_MS: Final = 50
PAUSED_MS: Final = 1_000
_MANY: Final = BeforePull(Step.WAIT, FLOW_CONTROL_MS, "too many messages wait to be polled")
_PAUSED: Final = BeforePull(Step.WAIT, PAUSED_MS, "the queue is paused")
_FORGET: Final = BeforePull(Step.FORGET)


@dataclass(slots=True)
class Assigned:
    """One queue of ours."""

    held: ProcessQueue
    request: PullRequest
    consume_offset: int = Offset.NOT_FOUND
    """First offset not yet polled."""
    paused: bool = False


class LiteQueues:
    """What the rebalance and the pull service ask of a lite pull consumer.

    Args:
        consumer: Whose queues.
        instance: Where it runs.
        store: Committed offsets.
        starts: Where to begin without one.
        assigned: The queues that are ours.
        ahead: Gets what is pulled.
    """

    def __init__(
        self,
        consumer: LitePullConsumer,
        instance: ClientInstance,
        store: OffsetStore,
        starts: StartOffsets,
        assigned: dict[MessageQueue, Assigned],
        ahead: PulledAhead,
    ) -> None:
        self.group = consumer.group
        self._consumer = consumer
        self._instance = instance
        self._store = store
        self._starts = starts
        self._assigned = assigned
        self._ahead = ahead

    # -- for the rebalance ----------------------------------------------------------------------

    async def release(self, queue: MessageQueue, held: ProcessQueue) -> bool:
        """Write the committed offset down and forget the queue (C-30)."""
        await self._store.persist(queue)
        self._store.table.remove(queue)
        self._assigned.pop(queue, None)
        return True

    def release_foreign(self, queue: MessageQueue) -> None:
        """The topic was unsubscribed (C-26)."""
        self._assigned.pop(queue, None)
        self._store.table.remove(queue)

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """Lite pull knows no locks (L-7)."""
        return queues

    async def find_start_offset(self, queue: MessageQueue) -> int:
        """C-33, memory first (L-4)."""
        stored = await self._store.read(queue, ReadOffsetType.MEMORY_FIRST_THEN_STORE)
        return await self._starts.find(queue, stored)

    def start_pulling(self, queue: MessageQueue, held: ProcessQueue, offset: int) -> None:
        """Begin to pull ahead."""
        assigned = Assigned(held, PullRequest(queue, held, offset))
        self._assigned[queue] = assigned
        self.pull(assigned)

    def pull(self, assigned: Assigned) -> None:
        """Pull a queue now, from where its request says."""
        self._instance.pull_service.execute_now(self, assigned.request)

    async def assignment_changed(
        self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        """Tell the brokers (C-27)."""
        if self._consumer.is_running:
            await self._instance.heartbeat()

    # -- for the pull service -------------------------------------------------------------------

    def before_pull(self, request: PullRequest) -> BeforePull:
        """Flow control over all queues and per queue (L-1d)."""
        consumer = self._consumer
        assigned = self._assigned.get(request.queue)
        if assigned is None or assigned.request is not request:
            return _FORGET
        if assigned.paused:
            return _PAUSED
        if len(self._ahead) * consumer.pull_batch_size > consumer.pull_threshold_for_all:
            return _MANY
        return before_pull(
            request,
            consumer.limits,
            running=consumer.is_running,
            suspended=False,
            orderly=False,
            subscribed=consumer.subscription(request.queue.topic) is not None,
            now=self._instance.clock.monotonic(),
        )

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        """Held, with the subscription's text; code 361 from 5.0 on (L-3)."""
        subscription = self._consumer.subscription(request.queue.topic)
        assert subscription is not None, "before_pull lets no other through"
        header_type = (
            LitePullMessageRequestHeader
            if self._instance.profile.lite_pull_code
            else PullMessageRequestHeader
        )
        return header_type(
            consumer_group=self.group,
            topic=request.queue.topic,
            queue_id=request.queue.queue_id,
            queue_offset=request.next_offset,
            max_msg_nums=self._consumer.pull_batch_size,
            sys_flag=PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL,
            suspend_timeout_millis=BROKER_SUSPEND_MS,
            sub_version=0 if subscription.expression_type == TAG else subscription.sub_version,
            subscription=subscription.sub_string,
            expression_type=subscription.expression_type,
        )

    async def find_start(self, request: PullRequest) -> bool:
        """Never asked for: there are no locks."""
        return True

    def pulled(
        self,
        request: PullRequest,
        status: PullStatus,
        header: PullMessageResponseHeader,
        messages: list[MessageExt],
    ) -> int | None:
        """Line messages up for `poll`; an illegal offset simply goes on elsewhere (L-4)."""
        assigned = self._assigned.get(request.queue)
        if assigned is None or assigned.request is not request or assigned.held.dropped:
            return None
        request.next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            wanted = self._consumer.wanted(request.queue.topic, messages)
            if wanted:
                assigned.held.put(wanted)
                self._ahead.put(Batch(wanted, assigned.held, request.queue))
        return 0
