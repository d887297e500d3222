"""A lite pull consumer's queues: taking them, pulling them, giving them up."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.progress.offset_store import OffsetStore
from pocketmq.client.consumer.progress.offset_table import Offset
from pocketmq.client.consumer.progress.start_offset import StartOffsets
from pocketmq.client.consumer.pull.lite_settings import LitePullSettings
from pocketmq.client.consumer.pull.pull_member import BROKER_SUSPEND_MS
from pocketmq.client.consumer.pull.pulled_ahead import PulledAhead, PulledBatch
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.pulling.pull_plan import (
    BeforePull,
    PullRequest,
    PullStatus,
    Step,
    all_bytes,
    before_pull,
)
from pocketmq.client.rebalance.claims import Claim
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.headers.pull import (
    LitePullMessageRequestHeader,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)
from pocketmq.protocol.messages.message import MessageExt, MessageQueue
from pocketmq.protocol.messages.subscription import TAG
from pocketmq.protocol.scalars import PullSysFlag

FLOW_CONTROL_MS: Final = 50
PAUSED_MS: Final = 1_000
_MANY: Final = BeforePull(Step.WAIT, FLOW_CONTROL_MS, "too many messages wait to be polled")
_PAUSED: Final = BeforePull(Step.WAIT, PAUSED_MS, "the queue is paused")
_FORGET: Final = BeforePull(Step.FORGET)


@dataclass(slots=True)
class Assigned:
    """One queue of ours."""

    request: PullRequest
    """The one pull that counts; the answer to a former one, before a `seek`, does not."""
    consume_offset: int = Offset.NOT_FOUND
    """First offset not yet polled."""
    paused: bool = False

    @property
    def buffer(self) -> ProcessQueue:
        """What was pulled and not yet polled."""
        return self.request.process_queue


class LiteQueues:
    """What the rebalance, the pull service and the application do with the queues.

    Args:
        member: Group, subscriptions and state of the consumer.
        settings: Flow control, messages per pull.
        planner: Owns the queues.
        store: Committed offsets.
        starts: Where to begin in a queue.
        ahead: Gets what is pulled.
    """

    def __init__(
        self,
        member: Membership,
        settings: LitePullSettings,
        planner: RebalancePlanner,
        store: OffsetStore,
        starts: StartOffsets,
        ahead: PulledAhead,
    ) -> None:
        self.group = member.group
        self.assigned: dict[MessageQueue, Assigned] = {}
        """The queues that are ours."""
        self._member = member
        self._instance = member.instance
        self._clock = member.instance.clock
        self._settings = settings
        self._limits = settings.cache_limits
        self._planner = planner
        self._store = store
        self._starts = starts
        self._ahead = ahead

    # -- for the rebalance ----------------------------------------------------------------------

    async def release(self, claim: Claim) -> bool:
        """Persist the committed offset and forget the queue (C-30)."""
        await self._store.persist(claim.queue)
        self._store.table.remove(claim.queue)
        self.assigned.pop(claim.queue, None)
        return True

    def release_foreign(self, queue: MessageQueue) -> None:
        """The topic was unsubscribed (C-26)."""
        self.assigned.pop(queue, None)
        self._store.table.remove(queue)

    async def lock(self, queues: Sequence[MessageQueue]) -> Collection[MessageQueue]:
        """All of them: lite pull knows no locks (L-7)."""
        return queues

    def lock_refused(self) -> None:
        """Never: lite pull knows no locks (L-7)."""

    async def find_start_offset(self, queue: MessageQueue) -> int:
        """The offset to begin at (C-33), memory first (L-4)."""
        return await self._starts.find(queue)

    def start_pulling(self, claim: Claim, offset: int) -> None:
        """Begin to pull ahead."""
        buffer = ProcessQueue(claim, self._clock.monotonic())
        assigned = self.assigned[claim.queue] = Assigned(PullRequest(buffer, offset))
        self._instance.pull_service.execute_now(self, assigned.request)

    async def assignment_changed(
        self, topic: str, all_queues: Sequence[MessageQueue], mine: Sequence[MessageQueue]
    ) -> None:
        """Send heartbeats (C-27)."""
        if self._member.state.running:
            await self._instance.heartbeat()

    # -- for the application --------------------------------------------------------------------

    async def follow(self, wanted: Collection[MessageQueue]) -> None:
        """Own exactly these queues: drop those that are not wanted, then pull the new ones (L-2).

        Raises:
            ClientError: where to begin in a queue cannot be found out now.
        """
        kept = frozenset(wanted)
        for queue in [queue for queue in self.assigned if queue not in kept]:
            claim = self.assigned[queue].buffer.claim
            self._planner.forget(queue)
            await self.release(claim)
        for queue in wanted:
            if queue in self.assigned:
                continue
            await self._instance.addresses.any_replica(queue)
            offset = await self.find_start_offset(queue)
            if offset < 0:
                raise ClientError(
                    f"the first offset to read from {queue} cannot be found now; try again"
                )
            self.start_pulling(self._planner.take(queue, self._clock.monotonic()), offset)

    def polled(self, batch: PulledBatch) -> None:
        """The application has these messages now; the next commit may include them (L-5)."""
        buffer = batch.buffer
        offset = buffer.remove(batch.messages)
        assigned = self.assigned.get(buffer.queue)
        if assigned is not None and assigned.buffer is buffer and offset >= 0:
            assigned.consume_offset = offset

    def seek(self, queue: MessageQueue, offset: int) -> bool:
        """Go on elsewhere, forgetting what was pulled; False when the queue is not ours (L-6)."""
        assigned = self.assigned.get(queue)
        if assigned is None:
            return False
        self._ahead.forget(queue)
        assigned.buffer.clear()
        assigned.consume_offset = offset
        self._store.table.update(queue, offset, increase_only=False)
        assigned.request = PullRequest(assigned.buffer, offset)
        self._instance.pull_service.execute_now(self, assigned.request)
        return True

    def pause(self, queues: Iterable[MessageQueue], *, paused: bool) -> None:
        """Pull these queues no more, or again; those that are not ours do not matter."""
        for queue in queues:
            if queue in self.assigned:
                self.assigned[queue].paused = paused

    def forget_all(self) -> None:
        """Own nothing any more."""
        self._planner.forget_all()
        self.assigned.clear()

    # -- for the pull service -------------------------------------------------------------------

    def before_pull(self, request: PullRequest) -> BeforePull:
        """Flow control over all queues and per queue (L-1d)."""
        assigned = self.assigned.get(request.queue)
        if assigned is None or assigned.request is not request:
            return _FORGET
        if assigned.paused:
            return _PAUSED
        if (
            len(self._ahead) * self._settings.pull_batch_size
            > self._settings.pull_threshold_for_all
        ):
            return _MANY
        return before_pull(
            request,
            self._limits,
            running=self._member.state.running,
            suspended=False,
            orderly=False,
            subscribed=self._member.subscriptions.by_topic.get(request.queue.topic) is not None,
        )

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        """Held, with the subscription's text; LITE_PULL_MESSAGE (361) from 5.0 on (L-3)."""
        subscription = self._member.subscriptions.by_topic.get(request.queue.topic)
        assert subscription is not None, "before_pull lets no other through"
        header_type = (
            LitePullMessageRequestHeader
            if self._instance.profile.client.lite_pull_code
            else PullMessageRequestHeader
        )
        return header_type(
            consumer_group=self.group,
            topic=request.queue.topic,
            queue_id=request.queue.queue_id,
            queue_offset=request.next_offset,
            max_msg_nums=self._settings.pull_batch_size,
            sys_flag=PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL,
            suspend_timeout_millis=BROKER_SUSPEND_MS,
            max_msg_bytes=all_bytes(self._instance.profile),
            sub_version=0 if subscription.expression_type == TAG else subscription.sub_version,
            subscription=subscription.sub_string,
            expression_type=subscription.expression_type,
            bname=request.queue.broker_name,
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
        """Enqueue messages for `poll`; an illegal offset is replaced by the broker's (L-4)."""
        assigned = self.assigned.get(request.queue)
        if assigned is None or assigned.request is not request or request.claim.dropped:
            return None
        request.next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            wanted = self._member.subscriptions.wanted(request.queue.topic, messages)
            if wanted:
                assigned.buffer.put(wanted)
                self._ahead.put(PulledBatch(wanted, assigned.buffer))
        return 0
