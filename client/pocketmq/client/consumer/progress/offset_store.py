"""Offset stores: where a group's progress in each queue is kept (C-65, C-66, C-68).

CLUSTERING writes to the broker of the queue, every 5 s, when a queue is given up and at the end.
BROADCASTING writes a local file, because each member goes its own way. A crash loses up to 5 s of
progress: messages come again, none is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import structlog

from pocketmq.client.api import ClientApi, commit_header
from pocketmq.client.broker_addresses import BrokerAddresses
from pocketmq.client.consumer.progress.offset_table import Offset, OffsetTable, ReadOffsetType
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.transport.channel import Channel
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()


class OffsetStore(Protocol):
    """The interface of an offset store."""

    table: OffsetTable

    async def load(self) -> None:
        """Read what was written before; raises when that is broken."""
        ...

    async def read(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """The offset, or one of `Offset`."""
        ...

    async def persist(self, queue: MessageQueue) -> None:
        """Persist one queue's offset."""
        ...

    async def persist_all(self, queues: Iterable[MessageQueue]) -> None:
        """Persist these queues' offsets; all of them are owned."""
        ...

    def persist_at_once(self, queues: Iterable[MessageQueue]) -> bool:
        """`persist_all` if that needs no waiting; False: it does, and nothing was done."""
        ...


class RemoteBrokerOffsetStore:
    """Offsets on the brokers (CLUSTERING).

    Args:
        group: Consumer group.
        api: To ask and tell brokers.
        addresses: Where brokers are.
    """

    def __init__(self, group: str, api: ClientApi, addresses: BrokerAddresses) -> None:
        self.table = OffsetTable()
        self._group = group
        self._api = api
        self._addresses = addresses

    async def load(self) -> None:
        """Nothing to do: brokers are asked queue by queue."""

    async def read(self, queue: MessageQueue, kind: ReadOffsetType) -> int:
        """Memory, or the broker: its value, -1 for none, -2 when it could not be asked (B-34)."""
        if kind is not ReadOffsetType.READ_FROM_STORE:
            offset = self.table.get(queue)
            if offset >= 0 or kind is ReadOffsetType.READ_FROM_MEMORY:
                return offset
        try:
            address = await self._addresses.master_or_replica(queue)
            stored = await self._api.consumer_offset(address, self._group, queue)
        except PocketMQError as exc:
            log.warning("offset.query_failed", group=self._group, queue=str(queue), reason=str(exc))
            return Offset.FAILED
        # The broker has answered that it stores no offset, so `consume_from_where` decides. After
        # an error (above) nothing is known.
        if stored is None:
            return Offset.NOT_FOUND
        self.table.update(queue, stored, increase_only=False)
        return stored

    async def persist(self, queue: MessageQueue) -> None:
        """Commit to the broker, oneway; a failure is logged, the next round commits again."""
        offset = self.table.get(queue)
        if offset < 0:
            return
        try:
            # A slave acts for a dead master and takes offsets then.
            broker = await self._addresses.any_replica(queue)
            await self._api.update_consumer_offset(broker.address, self._group, queue, offset)
        except PocketMQError as exc:
            log.warning(
                "offset.persist_failed",
                group=self._group,
                queue=str(queue),
                offset=offset,
                reason=str(exc),
            )

    async def persist_all(self, queues: Iterable[MessageQueue]) -> None:
        """Commit all owned queues to the brokers, and forget the rest (C-65)."""
        owned = list(queues)
        # First, because a rebalance may bring queues while we tell.
        self.table.keep_only(owned)
        for queue in owned:
            await self.persist(queue)

    def persist_at_once(self, queues: Iterable[MessageQueue]) -> bool:
        """Commit all owned queues, oneway, over connections that are open (P-5).

        False: one is not open, and nothing was sent; `persist_all` connects.
        """
        owned = list(queues)
        channels: dict[str, Channel] = {}
        for name in {queue.broker_name for queue in owned}:
            broker = self._addresses.routes.broker(name)
            channel = None if broker is None else self._api.open_channel(broker.address)
            if channel is None:
                return False
            # Look all channels up before anything is sent, so that False means that nothing was
            # sent.
            channels[name] = channel
        self.table.keep_only(owned)
        for queue in owned:
            offset = self.table.get(queue)
            if offset >= 0:
                channels[queue.broker_name].oneway(commit_header(self._group, queue, offset))
        return True
