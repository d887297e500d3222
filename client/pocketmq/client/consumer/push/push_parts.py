"""The parts of a running push consumer: `push_parts` makes and connects them.

Each part gets what it needs when it is made and knows nobody above it:

    Rebalancer -> PushQueues -> PushPulls -> consumption -> SendBack
     |  |             |             |            |  |
     | RebalancePlanner +-----------+------------+--> OffsetStore, process queues
     |                                              |
    PopQueues -> PopClient                   PopSettling      only without client_rebalance
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pocketmq.client.consumer.consuming.concurrent import ConcurrentConsumeService
from pocketmq.client.consumer.consuming.consume_events import ConsumeEvents
from pocketmq.client.consumer.consuming.consume_service import ConsumeService
from pocketmq.client.consumer.consuming.listener import ListenerCall
from pocketmq.client.consumer.consuming.orderly import OrderlyConsumeService
from pocketmq.client.consumer.consuming.queue_locks import QueueLocks
from pocketmq.client.consumer.consuming.send_back import SendBack
from pocketmq.client.consumer.membership.direct import DirectConsumption
from pocketmq.client.consumer.membership.membership import Membership
from pocketmq.client.consumer.popping.requests import PopClient
from pocketmq.client.consumer.popping.settling import PopSettling
from pocketmq.client.consumer.progress.local_offsets import (
    DEFAULT_DIRECTORY,
    LocalFileOffsetStore,
)
from pocketmq.client.consumer.progress.offset_store import OffsetStore, RemoteBrokerOffsetStore
from pocketmq.client.consumer.progress.skipped import is_watched
from pocketmq.client.consumer.progress.start_offset import StartOffsets
from pocketmq.client.consumer.push.assigned_pops import PopQueues
from pocketmq.client.consumer.push.offset_corrections import OffsetCorrections
from pocketmq.client.consumer.push.push_pulls import PullListener, PushPulls
from pocketmq.client.consumer.push.push_queues import AssignmentListener, PushQueues
from pocketmq.client.consumer.settings import PushSettings
from pocketmq.client.listener_threads import ListenerThreads, PooledThreads
from pocketmq.client.pulling.process_queue import ProcessQueue
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.client.rebalance.rebalance_events import RebalanceEvents
from pocketmq.client.rebalance.rebalancer import Rebalancer
from pocketmq.protocol.allocation.strategy import AllocateMessageQueueStrategy
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.files.text_files import TextFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Who gets the messages, and how."""

    listener: Callable[..., Any] | None = None
    """None: an iterator takes them."""
    one_by_one: bool = True
    """`listener(message)`, not `listener(messages, context)`."""
    orderly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """What an application brings of its own besides its listener; None for the built-in."""

    threads: ListenerThreads | None = None
    """Runs plain listeners."""
    offset_files: TextFiles | None = None
    """Where a broadcasting consumer keeps its progress."""
    on_assignment_changed: AssignmentListener | None = None
    on_pull: PullListener | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushParts:
    """The parts that the consumer itself talks to."""

    planner: RebalancePlanner
    rebalancer: Rebalancer
    buffers: dict[MessageQueue, ProcessQueue]
    """What was pulled of each queue and is not done."""
    store: OffsetStore
    moves: OffsetCorrections
    pulls: PushPulls
    consumption: ConsumeService
    concurrent: ConcurrentConsumeService | None
    """`consumption`, if it is the concurrent one; iterators take from it."""
    send_back: SendBack
    direct: DirectConsumption | None
    """Of a consumer with a listener."""
    consume_events: ConsumeEvents
    threads: ListenerThreads
    pops: PopQueues | None
    """What is popped; None when the client shares queues out."""


# behaviour 64
def push_parts(
    member: Membership,
    settings: PushSettings,
    strategy: AllocateMessageQueueStrategy,
    listening: Listening,
    hooks: Hooks,
    consume_timestamp_ms: int,
) -> PushParts:
    """Make the parts of a push consumer that is about to start.

    Args:
        member: The consumer in its group and client instance.
        settings: Its options.
        strategy: Shares queues out among the members.
        listening: Who gets the messages.
        hooks: What the application brings besides.
        consume_timestamp_ms: Where `TIMESTAMP` begins (C-33).
    """
    group, instance = member.group, member.instance
    # Iterators do not take messages in order: only a listener has orderly runs.
    orderly = listening.orderly and listening.listener is not None
    clustering = not settings.is_broadcasting
    planner = RebalancePlanner(
        group, instance.client_id, strategy, broadcasting=not clustering, orderly=orderly
    )
    buffers: dict[MessageQueue, ProcessQueue] = {}
    store: OffsetStore = (  # C-65, C-66
        RemoteBrokerOffsetStore(group, instance.api, instance.addresses)
        if clustering
        else LocalFileOffsetStore(
            settings.local_offset_store_dir or DEFAULT_DIRECTORY,
            instance.client_id,
            group,
            files=hooks.offset_files,
        )
    )
    starts = StartOffsets(
        instance.api,
        instance.addresses,
        store,
        settings.consume_from_where,
        consume_timestamp_ms,
        # Another member may have consumed the queue meanwhile, so offsets in memory may be old.
        memory_first=False,
        watch_since_ms=instance.clock.time_ms()
        if is_watched(instance.config.nameservers)
        else None,
    )
    send_back = SendBack(group, instance, settings.max_retries(orderly=orderly))
    threads = hooks.threads or PooledThreads(f"consume-{group}", settings.consume_thread_max)
    consume_events = ConsumeEvents(instance.events, group, instance.client_id)
    listener = None
    if listening.listener is not None:
        listener = ListenerCall(
            listening.listener,
            one_by_one=listening.one_by_one,
            threads=threads,
            events=consume_events,
        )
    concurrent: ConcurrentConsumeService | None = None
    ordered: OrderlyConsumeService | None = None
    consumption: ConsumeService
    if orderly and listener is not None:
        consumption = ordered = OrderlyConsumeService(
            group,
            instance.clock,
            instance.profile.client,
            settings,
            listener,
            offsets=store.table,
            gives_to_broker=send_back,
            # Broadcasting members share nothing, so there is nothing to lock (C-58).
            locks=QueueLocks(group, instance, planner.claims) if clustering else None,
        )
    else:
        consumption = concurrent = ConcurrentConsumeService(
            group,
            instance.clock,
            instance.profile.client,
            settings,
            listener,
            offsets=store.table,
            sends_back=send_back,
            buffers=buffers,
        )
    moves = OffsetCorrections(member, planner, buffers, store, ordered)
    pulls = PushPulls(
        member, settings, planner, store.table, starts, moves, consumption, hooks.on_pull
    )
    queues = PushQueues(
        member, buffers, store, starts, consumption, pulls, hooks.on_assignment_changed
    )
    pops: PopQueues | None = None
    # Pops have no order and no local progress: orderly and broadcasting consumers pull always
    # (K-165).
    if clustering and not settings.client_rebalance and concurrent is not None:
        client = PopClient(group, instance, instance.config.max_body_bytes)
        settling = PopSettling(group, instance, client, settings.max_retries(orderly=False))
        pops = PopQueues(
            member, settings, strategy.name, client, settling, concurrent, hooks.on_pull
        )
    rebalancer = Rebalancer(
        planner,
        queues,
        api=instance.api,
        addresses=instance.addresses,
        clock=instance.clock,
        allocation=pops,
        events=RebalanceEvents(instance.events),
    )
    return PushParts(
        planner=planner,
        rebalancer=rebalancer,
        buffers=buffers,
        store=store,
        moves=moves,
        pulls=pulls,
        consumption=consumption,
        concurrent=concurrent,
        send_back=send_back,
        direct=None
        if listener is None
        else DirectConsumption(group, instance.clock, listener, orderly=orderly),
        consume_events=consume_events,
        threads=threads,
        pops=pops,
    )
