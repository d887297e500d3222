"""NOTIFY_CONSUMER_IDS_CHANGED (40): notifies members that their group changed (B-24 to B-26).

A notice says only "look again": members ask who is in the group (GET_CONSUMER_LIST_BY_GROUP, 38)
and share the queues out anew. It is a hint, sent oneway and never repeated; a member that misses it
looks by itself within 20 s (C-20).

Changes of one turn of the loop are told once, however many they are. Ten members whose heartbeats
come in one turn make ten notices, one for each, and not a hundred:

    turn 1    heartbeats of c1, ..., c10 are read: the group changed ten times
    turn 2    a notice to c1, ..., c10

Whether a change is told at all is decided by consumer_changes.py, which is pure.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Final

from pocketmq.broker.groups.consumer_changes import ConsumerChanges
from pocketmq.broker.groups.consumers import ConsumerGroupInfo, ConsumerManager
from pocketmq.operation.events.groups import MemberNotified
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.headers.clients import NotifyConsumerIdsChangedRequestHeader
from pocketmq.runtime.clock import Clock

FIRST_BATCH_S: Final = 30.0
BATCH_PERIOD_S: Final = 15.0
"""When notifications leave that are not sent at once; a group is told once however often it changed
meanwhile (B-24)."""

NOTICES_A_TURN: Final = 1_000
"""After so many, the groups behind are told in the next turn of the loop."""


class ConsumerNotices:
    """Sends the notices after the work at hand, or in batches.

    Args:
        changes: which groups are to be notified.
        consumers: the connections of their members.
        clock: times the batches.
        defer: calls a function in the next turn of the event loop.
        at_once: send notices at once, not in batches (B-24).
        events: told of each notice.
        broker: name of the broker.
    """

    def __init__(
        self,
        changes: ConsumerChanges,
        consumers: ConsumerManager,
        clock: Clock,
        defer: Callable[[Callable[[], None]], object],
        *,
        at_once: bool = True,
        events: EventSink = NO_EVENTS,
        broker: str = "",
    ) -> None:
        self._events = events
        self._broker = broker
        self._changes = changes
        self._consumers = consumers
        self._clock = clock
        self._defer = defer
        self._notifying = False
        self._to_tell: deque[str] = deque()
        self._first_batch_at = None if at_once else clock.monotonic() + FIRST_BATCH_S

    def heartbeat(self, info: ConsumerGroupInfo) -> None:
        """A heartbeat changed the group (B-24)."""
        if self._changes.note_heartbeat(info):
            self._notify_soon()

    def unregistered(self, info: ConsumerGroupInfo) -> None:
        """A member unregistered (B-25)."""
        if self._changes.note_unregistered(info):
            self._notify_soon()

    def closed(self, info: ConsumerGroupInfo) -> None:
        """A member's connection ended (B-26)."""
        if self._changes.note_closed(info):
            self._notify_soon()

    def _notify_soon(self) -> None:
        # A round that is scheduled includes all changes until it runs.
        if self._notifying:
            return
        self._notifying = True
        if self._first_batch_at is None:
            self._defer(self._notify)
            return
        late_s = self._clock.monotonic() - self._first_batch_at
        batches = 0 if late_s <= 0 else math.ceil(late_s / BATCH_PERIOD_S)
        # By option notices are sent in steps of 15 s, as by RocketMQ's timer (B-24).
        self._clock.call_at(self._first_batch_at + batches * BATCH_PERIOD_S, self._notify)

    def _notify(self) -> None:
        """Tell the members of each group that changed in this turn of the loop (B-24)."""
        self._notifying = False
        # A round that has not finished takes the new groups along.
        is_under_way = bool(self._to_tell)
        self._to_tell += self._changes.take()
        if not is_under_way:
            self._tell_some()

    def _tell_some(self) -> None:
        notices = 0
        while self._to_tell and notices < NOTICES_A_TURN:
            info = self._consumers.get(self._to_tell.popleft())
            # The group's members may all have left meanwhile.
            if info is not None:
                self._notify_members(info)
                notices += len(info.members)
        if self._to_tell:
            self._defer(self._tell_some)

    def _notify_members(self, info: ConsumerGroupInfo) -> None:
        header = NotifyConsumerIdsChangedRequestHeader(consumer_group=info.group)
        for channel, member in info.members.items():
            if self._events.is_on:
                self._tell(info.group, member.client_id)
            # Oneway and never repeated: a member that misses it checks by itself within 20 s
            # (C-20).
            channel.oneway(header)

    def _tell(self, group: str, client_id: str) -> None:
        stamp = self._events.stamp()
        self._events.emit(
            MemberNotified(*stamp, group=group, client_id=client_id, broker=self._broker)
        )
