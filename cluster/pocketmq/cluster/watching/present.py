"""What is there when somebody begins to watch, told as events: roles, members, queues, offsets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pocketmq.cluster.own_topics import peoples_topics
from pocketmq.cluster.steering.cluster_view import ClusterView
from pocketmq.protocol.events import Event
from pocketmq.protocol.events.log import EventLog
from pocketmq.protocol.events.messages import MessageDispatched, OffsetCommitted
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

if TYPE_CHECKING:
    from pocketmq.cluster.steering.cluster_control import ClusterControl

NOTHING = ClusterView(0, is_manual=False, states={}, known=frozenset(), members={})
"""As a cluster looks of which nothing is known yet."""


async def present(control: ClusterControl) -> list[Event]:
    """The events that lead to what the cluster is now.

    What does not answer is left out: a frozen broker must not keep anybody from watching.
    """
    real = SystemClock()
    log = EventLog("cluster", control.time_ms, lambda: int(real.monotonic() * 1_000_000))
    found: list[Event] = []
    try:
        view = await ClusterView.of(control)
    except PocketMQError:
        states = {name: control.roles.state(name) for name in control.roles.names}
        view = replace(NOTHING, at_ms=control.time_ms(), states=states)
    found += view.since(replace(NOTHING, at_ms=view.at_ms), log)
    try:
        async for event in _progress(control, log, {group for group, _ in view.members}):
            found.append(event)
    except PocketMQError:
        return found  # the offsets come with the next events
    return found


async def _progress(
    control: ClusterControl, log: EventLog, groups: set[str]
) -> AsyncIterator[Event]:
    async with control.admin() as admin:
        for topic in await peoples_topics(admin):
            for queue, bounds in (await admin.topic_stats(topic)).items():
                if bounds.max_offset:
                    yield MessageDispatched(
                        *log.stamp(),
                        topic=topic,
                        broker=queue.broker_name,
                        queue=queue.queue_id,
                        offset=0,
                        count=bounds.max_offset,
                        physical_end=0,
                    )
        for group in sorted(groups):
            for queue, each in (await admin.consume_stats(group)).items():
                yield OffsetCommitted(
                    *log.stamp(),
                    topic=queue.topic,
                    broker=queue.broker_name,
                    queue=queue.queue_id,
                    offset=each.consumer_offset,
                    group=group,
                )
