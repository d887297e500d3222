"""What a running push consumer is made of, and how the parts know each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pocketmq.client.consumer.concurrent import ConcurrentConsumeService
from pocketmq.client.consumer.listener import ListenerCall, PooledThreads
from pocketmq.client.consumer.local_offsets import DEFAULT_DIRECTORY, LocalFileOffsetStore
from pocketmq.client.consumer.offset_moves import OffsetMoves
from pocketmq.client.consumer.offset_store import OffsetStore, RemoteBrokerOffsetStore
from pocketmq.client.consumer.orderly import OrderlyConsumeService
from pocketmq.client.consumer.process_queue import ProcessQueue
from pocketmq.client.consumer.push_queues import AssignmentListener, PullListener, PushQueues
from pocketmq.client.consumer.queue_locks import QueueLocks
from pocketmq.client.consumer.send_back import SendBack
from pocketmq.client.consumer.start_offset import StartOffsets
from pocketmq.client.instance import ClientInstance
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.rebalance.rebalancer import Rebalancer
from pocketmq.protocol.message import MessageExt, MessageQueue

if TYPE_CHECKING:
    from pocketmq.client.consumer.push import PushConsumer


class ConsumeService(Protocol):
    """Concurrent or orderly consumption."""

    def start(self) -> None: ...
    async def stop(self, await_termination_s: float = 0.0) -> None: ...
    def submit(
        self,
        messages: list[MessageExt],
        held: ProcessQueue,
        queue: MessageQueue,
        *,
        dispatch: bool,
    ) -> None: ...


class PushParts:
    """What a running push consumer is made of."""

    def __init__(
        self,
        consumer: PushConsumer,
        instance: ClientInstance,
        *,
        on_assignment_changed: AssignmentListener | None,
        on_pull: PullListener | None,
    ) -> None:
        settings, group = consumer.settings, consumer.group
        orderly = consumer.is_orderly
        clustering = not settings.is_broadcasting
        self.planner = RebalancePlanner(
            group,
            instance.client_id,
            consumer.strategy,
            broadcasting=settings.is_broadcasting,
            orderly=orderly,
        )
        self.queues = PushQueues(
            consumer,
            self,
            instance,
            on_assignment_changed=on_assignment_changed,
            on_pull=on_pull,
        )
        self.rebalancer = Rebalancer(
            self.planner,
            self.queues,
            api=instance.api,
            addresses=instance.addresses,
            clock=instance.clock,
            rebalance_soon=consumer.rebalance_soon,
            broadcasting=settings.is_broadcasting,
        )
        self.offset_store: OffsetStore = (  # C-65, C-66
            RemoteBrokerOffsetStore(group, instance.api, instance.addresses)
            if clustering
            else LocalFileOffsetStore(
                settings.local_offset_store_dir or DEFAULT_DIRECTORY,
                instance.client_id,
                group,
                files=consumer.offset_files,
            )
        )
        self.offsets = self.offset_store.table
        self.start_offsets = StartOffsets(
            instance.api,
            instance.addresses,
            consumer.consume_from_where,
            consumer.consume_timestamp_ms,
        )
        self.offset_moves = OffsetMoves(
            self.planner, self.offset_store, instance.clock, instance.profile
        )
        self.locks = QueueLocks(group, instance) if orderly and clustering else None
        self.send_back = SendBack(group, instance, lambda: settings.max_retries(orderly=orderly))
        self.threads = consumer.threads or PooledThreads(
            f"consume-{group}", settings.consume_thread_max
        )
        self.concurrent: ConcurrentConsumeService | None = None
        self.orderly: OrderlyConsumeService | None = None
        self.service = self._make_service(consumer, instance)

    def _make_service(self, consumer: PushConsumer, instance: ClientInstance) -> ConsumeService:
        settings, listener = consumer.settings, consumer.listener
        call = None
        if listener is not None:
            call = ListenerCall(listener, one_by_one=consumer.one_by_one, threads=self.threads)
        batch_max_size = 1 if consumer.one_by_one else settings.consume_message_batch_max_size
        if call is not None and consumer.is_orderly:
            self.orderly = OrderlyConsumeService(
                consumer.group,
                instance.clock,
                call,
                instance.profile,
                offsets=self.offsets,
                gives_to_broker=self.send_back,
                locks=self.locks,
                process_queues=self.planner.process_queues,
                max_workers=settings.consume_thread_max,
                batch_max_size=batch_max_size,
                suspend_ms=settings.suspend_current_queue_time_ms,
                max_reconsume_times=settings.max_retries(orderly=True),
            )
            return self.orderly
        self.concurrent = ConcurrentConsumeService(
            consumer.group,
            instance.clock,
            call,
            offsets=self.offsets,
            sends_back=self.send_back,
            max_workers=settings.consume_thread_max,
            batch_max_size=batch_max_size,
            consume_timeout_s=settings.consume_timeout_min * 60,
            broadcasting=settings.is_broadcasting,
            skip_send_back_of_dropped=instance.profile.skip_send_back_of_dropped,
            process_queues=lambda: list(self.planner.process_queues.values()),
        )
        return self.concurrent
