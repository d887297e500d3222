"""Pull offsets of broadcasting groups' members: RocketMQ's BroadcastOffsetManager (B-36).

A broadcasting client keeps its offsets in a local file; a proxy that pulls for one has no such
file. So the broker tracks where each client pulls, and commits the smallest offset of each queue
for `group@broadcast`. A client that changes from the broker to a proxy, or back, continues at
its own offset; one that is new at a proxy begins at the group's. The table is in memory only.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pocketmq.broker.groups.consumers import ConsumerGroupInfo, ConsumerManager
from pocketmq.broker.offsets.consumer_offsets import SEPARATOR, ConsumerOffsetManager
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.scalars import RequestSource
from pocketmq.runtime.signals import Signal


def broadcast_group(group: str) -> str:
    """The name for which the group's smallest offsets are committed."""
    return f"{group}{SEPARATOR}broadcast"


class BroadcastPuller(msgspec.Struct, gc=False, frozen=True):
    """The member of a broadcasting group that a pull is for."""

    client_id: str
    via_proxy: bool


class _Client:
    """Pull offsets of one member in one topic."""

    __slots__ = ("offsets", "pulled_at", "via_proxy")

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}
        """Queue id -> the largest offset that it has pulled from."""
        self.pulled_at = 0.0
        """The caller's monotonic seconds at its last pull."""
        self.via_proxy = False
        """Whether its last pull came from a proxy. It is one flag for all queues: after a change
        only the first queue that is pulled is moved to the client's old offset."""


class BroadcastOffsets:
    """(topic, group) -> client id -> its pull offsets.

    Args:
        consumers: tells broadcasting groups from others, and who is connected.
        offsets: gets the smallest offsets.
        start_offset: where a group without any offset begins in (topic, queue id).
        expire_s: a disconnected client counts until its last pull is so old.
        expire_max_s: a connected client is forgotten at this age, until it pulls again.
    """

    def __init__(
        self,
        consumers: ConsumerManager,
        offsets: ConsumerOffsetManager,
        start_offset: Callable[[str, int], int],
        *,
        expire_s: float = 120.0,
        expire_max_s: float = 300.0,
    ) -> None:
        self._consumers = consumers
        self._offsets = offsets
        self._start_offset = start_offset
        self._expire_s = expire_s
        self._expire_max_s = expire_max_s
        self._table: dict[tuple[str, str], dict[str, _Client]] = {}
        self.began: Signal[[]] = Signal()
        """The table was empty and has its first entry."""

    def __bool__(self) -> bool:
        return bool(self._table)

    # -- pulls ----------------------------------------------------------------------------------

    def puller(
        self, peer: Peer, header: PullMessageRequestHeader, info: ConsumerGroupInfo | None
    ) -> BroadcastPuller | None:
        """Which client the pull is for, of the group's members; None where nothing is noted.

        That is where the group shares its queues, where its members pull by themselves and not
        under a listener, and where the connection has sent no heartbeat for it.
        """
        # A proxy names the client, because one connection of a proxy serves many clients (B-36).
        if header.request_source == RequestSource.PROXY_FOR_BROADCAST:
            client_id = header.proxy_froward_client_id
            return BroadcastPuller(client_id, via_proxy=True) if client_id else None
        if info is None or not info.is_broadcasting or info.consume_type != "CONSUME_PASSIVELY":
            return None
        member = info.members.get(peer)
        return BroadcastPuller(member.client_id, via_proxy=False) if member is not None else None

    def init_offset(self, header: PullMessageRequestHeader, puller: BroadcastPuller) -> int | None:
        """The offset to pull from in place of the requested one; None keeps that.

        A proxy asks with an offset below 0. A client that changed from or to a proxy is moved
        without asking.
        """
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        client = self._table.get((topic, group), {}).get(puller.client_id)
        # A client without an entry is taken to be connected as it is now.
        was_via_proxy = puller.via_proxy if client is None else client.via_proxy
        asks = was_via_proxy and header.queue_offset < 0
        if not asks and was_via_proxy == puller.via_proxy:
            return None
        offset = None if client is None else client.offsets.get(queue_id)
        if offset is None:
            # Without an offset of its own the client gets the smallest one of the group.
            offset = self._offsets.query(broadcast_group(group), topic, queue_id)
        return self._start_offset(topic, queue_id) if offset is None else offset

    def note(
        self, header: PullMessageRequestHeader, puller: BroadcastPuller, offset: int, now: float
    ) -> None:
        """The client pulled from `offset`, or was moved there. An offset smaller than the known one
        is ignored."""
        was_empty = not self._table
        clients = self._table.setdefault((header.topic, header.consumer_group), {})
        client = clients.get(puller.client_id)
        if client is None:
            client = clients[puller.client_id] = _Client()
        client.pulled_at = now
        client.via_proxy = puller.via_proxy
        queue_id = header.queue_id
        # The offset never falls: two clients with the same id may pull at once.
        client.offsets[queue_id] = max(offset, client.offsets.get(queue_id, offset))
        if was_empty:
            self.began.emit()

    # -- by the clock ---------------------------------------------------------------------------

    def scan(self, now: float, now_ms: int) -> None:
        """Commit the smallest offset of every queue, and forget clients that are too old.

        Args:
            now: monotonic seconds, as those given to `note`.
            now_ms: stamps the commits.
        """
        for (topic, group), clients in list(self._table.items()):
            smallest = self._look_at(group, clients, now)
            if not clients:
                del self._table[topic, group]
            name = broadcast_group(group)
            for queue_id, offset in smallest.items():
                # Commit only changes: this runs every few seconds for each queue.
                if self._offsets.query(name, topic, queue_id) != offset:
                    self._offsets.commit(name, topic, queue_id, offset, now_ms)

    def _look_at(self, group: str, clients: dict[str, _Client], now: float) -> dict[int, int]:
        """Drop a group's old clients; returns queue id -> smallest offset of those that counted."""
        info = self._consumers.get(group)
        smallest: dict[int, int] = {}
        for client_id, client in list(clients.items()):
            age_s = now - client.pulled_at
            connected = info is not None and client_id in info.ids
            # A disconnected client counts for a while, so that its messages are not skipped.
            if connected or age_s < self._expire_s:
                for queue_id, offset in client.offsets.items():
                    smallest[queue_id] = min(offset, smallest.get(queue_id, offset))
            # A connected client is dropped only after a longer silence.
            if age_s >= (self._expire_max_s if connected else self._expire_s):
                del clients[client_id]
        return smallest

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted (B-16)."""
        for key in [key for key in self._table if key[0] == topic]:
            del self._table[key]
