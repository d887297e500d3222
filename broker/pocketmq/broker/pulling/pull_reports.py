"""Who is told what became of a pull: who watches, and with 4.9 who reads OFFSET_MOVED_EVENT."""

from __future__ import annotations

from typing import Final, TypeAlias

from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.pulling.offset_moved_events import OffsetMovedEvents
from pocketmq.broker.pulling.pull_checks import HeldPull
from pocketmq.broker.store import GetResult
from pocketmq.operation.events.messages import MessagePulled, PullHeld, PullWoken, Woken
from pocketmq.operation.events.sink import NO_EVENTS, Counted, EventSink, Place
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.headers.pull import PullMessageRequestHeader

MOST_KEPT: Final = 10_000
"""Queues of groups whose counters are kept."""

Kind: TypeAlias = type[MessagePulled] | type[PullHeld] | type[PullWoken]


class PullReports:
    """Tells of pulls. Ask `events.is_on` before `found`, `held` and `woken`.

    Args:
        events: Told of pulls that got something, waited, and were woken.
        broker: Name of the broker.
        consumers: Knows the client of a connection.
        moved: Stores a message about each PULL_OFFSET_MOVED (21); only 4.9 does.
    """

    def __init__(
        self,
        events: EventSink = NO_EVENTS,
        broker: str = "",
        consumers: ConsumerManager | None = None,
        moved: OffsetMovedEvents | None = None,
    ) -> None:
        self.events = events
        self.moved = moved
        self._broker = broker
        self._consumers = consumers
        self._counters: dict[tuple[Kind, str, str, int], Counted] = {}
        """(kind, group, topic, queue) -> its counter: each pull needs one or two."""

    def found(self, peer: Peer, header: PullMessageRequestHeader, result: GetResult) -> None:
        """A pull is answered with messages."""
        events = self.events
        topic, queue_id, group = header.topic, header.queue_id, header.consumer_group
        if not events.wants(MessagePulled):
            self._counted(MessagePulled, header).add(result.count, result.size_bytes)
            return
        event = MessagePulled(
            *events.stamp(),
            topic=topic,
            broker=self._broker,
            queue=queue_id,
            offset=header.queue_offset,
            end=result.next_begin_offset,
            count=result.count,
            size=result.size_bytes,
            group=group,
            peer=peer.address,
            client_id=self._client_id(peer, group),
        )
        events.emit(event)

    def held(self, peer: Peer, header: PullMessageRequestHeader) -> None:
        """A pull waits."""
        events = self.events
        if not events.wants(PullHeld):
            self._counted(PullHeld, header).add(1, 0)
            return
        event = PullHeld(
            *events.stamp(),
            topic=header.topic,
            broker=self._broker,
            queue=header.queue_id,
            offset=header.queue_offset,
            group=header.consumer_group,
            peer=peer.address,
        )
        events.emit(event)

    def woken(self, pull: HeldPull, trigger: Woken) -> None:
        """A pull waits no longer."""
        events, header = self.events, pull.header
        if not events.wants(PullWoken):
            self._counted(PullWoken, header).add(1, 0)
            return
        event = PullWoken(
            *events.stamp(),
            topic=header.topic,
            broker=self._broker,
            queue=header.queue_id,
            offset=header.queue_offset,
            group=header.consumer_group,
            peer=pull.peer.address,
            trigger=trigger,
        )
        events.emit(event)

    def _counted(self, kind: Kind, header: PullMessageRequestHeader) -> Counted:
        key = (kind, header.consumer_group, header.topic, header.queue_id)
        found = self._counters.get(key)
        if found is None:
            # Clearing all counters is cheaper than finding out which one to drop.
            if len(self._counters) >= MOST_KEPT:
                self._counters.clear()
            place = Place(header.topic, header.queue_id, self._broker, header.consumer_group)
            found = self._counters[key] = self.events.counter(kind, place)
        return found

    def _client_id(self, peer: Peer, group: str) -> str | None:
        info = None if self._consumers is None else self._consumers.get(group)
        member = None if info is None else info.members.get(peer)
        return None if member is None else member.client_id
