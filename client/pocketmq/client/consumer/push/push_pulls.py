"""A push consumer's pulls: whether one is sent now, what it says, and what its answer brings.

A push consumer pulls. For each queue that it owns one `PullRequest` goes round, and nothing else
asks for messages of that queue. The pull service (pull_service.py) drives it and asks here:

    before_pull   is the queue still ours, is there room for more? (flow control, C-36)
    pull_header   from which offset, how many messages, and the offset to commit on the way (C-37)
    pulled        take the answer; in how many ms to pull again (C-41 to C-44)

Queue orders/0, offsets from 0 on; the broker has messages 0 to 39 when the consumer begins:

    pull from 0     FOUND, 32 messages, next offset 32     buffered and given to listeners; at once
    pull from 32    FOUND, 8 messages, next offset 40      as well
    pull from 40    held by the broker until a message comes or 15 s are over (B-70)
    ...             a listener is slow: over 1,000 messages wait in the buffer; no pull for 50 ms

What the listener has consumed is committed by the pulls: each carries the smallest offset that is
not consumed yet.
"""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.client.consumer.consuming.consume_service import ConsumeService
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.progress.offset_table import OffsetTable
from pocketmq.client.consumer.progress.start_offset import StartOffsets
from pocketmq.client.consumer.push.offset_corrections import OffsetCorrections
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.pulling.pull_plan import (
    PULL_BATCH_BYTES,
    BeforePull,
    PullRequest,
    PullStatus,
    Step,
    before_pull,
    pull_header,
)
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.routes import BrokerAddress
from pocketmq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pocketmq.protocol.messages.message import MessageExt, MessageQueue

PullListener = Callable[[MessageQueue], None]
"""`listener(queue)`: a pull of the queue is on its way."""


class PushPulls:
    """A push consumer for the pull service.

    Args:
        member: Its group, subscriptions and state.
        settings: Flow control, messages per pull.
        planner: Owns the queues; gets a report of each pull.
        offsets: How far the group has come; a pull carries it to the broker.
        starts: Where to begin in a queue that was just locked.
        moves: Corrects an illegal offset.
        consumption: Gets what is pulled.
        on_pull: Called with the queue of each pull that is sent.
    """

    def __init__(
        self,
        member: Membership,
        settings: PushSettings,
        planner: RebalancePlanner,
        offsets: OffsetTable,
        starts: StartOffsets,
        moves: OffsetCorrections,
        consumption: ConsumeService,
        on_pull: PullListener | None,
    ) -> None:
        self.group = member.group
        self.limits = settings.cache_limits(owned_queues=1)
        """Flow control; limits per topic are shared out over the queues that we have (C-27)."""
        self._member = member
        self._settings = settings
        self._broadcasting = settings.is_broadcasting
        self._profile = member.instance.profile.client
        self._clock = member.instance.clock
        self._planner = planner
        self._offsets = offsets
        self._starts = starts
        self._moves = moves
        self._consumption = consumption
        self._on_pull = on_pull
        self._needs_lock = planner.needs_lock

    def share_limits(self) -> None:
        """Share limits per topic out over the queues that we have now (C-27)."""
        self.limits = self._settings.cache_limits(self._planner.claims.owned_count)

    def before_pull(self, request: PullRequest) -> BeforePull:
        """Whether to pull now (C-36); in any case the queue counts as served (C-25.2)."""
        state = self._member.state
        found = before_pull(
            request,
            self.limits,
            running=state.running,
            suspended=state.suspended,
            orderly=self._needs_lock,
            subscribed=self._member.subscriptions.by_topic.get(request.queue.topic) is not None,
        )
        if found.step is not Step.FORGET:
            self._planner.claims.pulled(request.claim, self._clock.monotonic())
        return found

    def pull_header(self, request: PullRequest, broker: BrokerAddress) -> PullMessageRequestHeader:
        """The request to send (C-37); tells `on_pull`."""
        subscription = self._member.subscriptions.by_topic.get(request.queue.topic)
        assert subscription is not None, "before_pull lets no other through"
        if self._on_pull is not None:
            self._on_pull(request.queue)
        return pull_header(
            request,
            self.group,
            subscription,
            commit_offset=0 if self._broadcasting else self._offsets.offsets.get(request.queue, 0),
            max_msg_nums=self._settings.pull_batch_size,
            post_subscription=self._settings.post_subscription_when_pull,
            broker_id=broker.broker_id,
            max_msg_bytes=PULL_BATCH_BYTES if self._profile.pull_names_max_bytes else None,
        )

    async def find_start(self, request: PullRequest) -> bool:
        """Look the start offset up again under the lock: its last owner may have moved it."""
        offset = await self._starts.find(request.queue)
        if offset < 0:
            return False
        request.next_offset = offset
        request.previously_locked = True
        return True

    def pulled(
        self,
        request: PullRequest,
        status: PullStatus,
        header: PullMessageResponseHeader,
        messages: list[MessageExt],
    ) -> int | None:
        """Take an answer; in how many ms to pull again, or None if never (C-41 to C-44)."""
        buffer, queue = request.process_queue, request.queue
        request.next_offset = header.next_begin_offset
        if status is PullStatus.FOUND:
            wanted = self._member.subscriptions.wanted(queue.topic, messages)
            if not wanted:
                return 0
            dispatch = buffer.put(wanted)
            self._consumption.submit(wanted, buffer, dispatch=dispatch)
            return self._settings.pull_interval_ms
        if status is PullStatus.OFFSET_ILLEGAL:
            self._moves.correct(request)
            return None
        if buffer.count == 0 and not buffer.claim.dropped:
            self._offsets.update(queue, request.next_offset, increase_only=True)
        return 0
