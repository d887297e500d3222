"""Admin requests about offsets: of queues, and of groups in them."""

from __future__ import annotations

from collections.abc import Container

from pocketmq.client.admin.base import AdminBase, by_queue
from pocketmq.protocol.bodies.offsets import (
    ConsumeStats,
    OffsetWrapper,
    ResetOffsetBody,
)
from pocketmq.protocol.headers.offsets import (
    GetConsumeStatsRequestHeader,
    ResetOffsetRequestHeader,
)
from pocketmq.protocol.messages.message import MessageQueue


class OffsetAdmin(AdminBase):
    """Reads and moves offsets."""

    async def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the queue's next message will get: GET_MAX_OFFSET (30)."""
        return await self._api.max_offset(await self._masters.of_broker(queue.broker_name), queue)

    async def min_offset(self, queue: MessageQueue) -> int:
        """The queue's oldest offset still stored: GET_MIN_OFFSET (31)."""
        return await self._api.min_offset(await self._masters.of_broker(queue.broker_name), queue)

    async def search_offset(
        self, queue: MessageQueue, time_ms: int, *, boundary: str | None = None
    ) -> int:
        """The first offset stored at or after a moment; `boundary="UPPER"` for the last before."""
        address = await self._masters.of_broker(queue.broker_name)
        return await self._api.search_offset(address, queue, time_ms, boundary=boundary)

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """When the queue's oldest message was stored, in epoch ms; -1 if it has none.

        Asks by GET_EARLIEST_MSG_STORETIME (32).
        """
        return await self._api.earliest_store_time(
            await self._masters.of_broker(queue.broker_name), queue
        )

    async def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """A group's consumer offset; None if nothing is stored: QUERY_CONSUMER_OFFSET (14)."""
        return await self._api.consumer_offset(
            await self._masters.of_broker(queue.broker_name), group, queue
        )

    async def update_consumer_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Move a group that is not running: UPDATE_CONSUMER_OFFSET (15)."""
        await self._api.update_consumer_offset(
            await self._masters.of_broker(queue.broker_name), group, queue, offset, oneway=False
        )

    async def consume_stats(
        self, group: str, topic: str | None = None
    ) -> dict[MessageQueue, OffsetWrapper]:
        """A group's progress in every queue it has an offset for: GET_CONSUME_STATS (208)."""
        masters = self._masters
        header = GetConsumeStatsRequestHeader(consumer_group=group, topic=topic)
        answers = await masters.ask(await masters.all(), header, ConsumeStats)
        return by_queue(each.offset_table for each in answers)

    async def reset_offset(
        self,
        group: str,
        topic: str,
        time_ms: int,
        *,
        force: bool = True,
        brokers: Container[str] | None = None,
    ) -> dict[MessageQueue, int]:
        """Move a group to what was stored at a moment; where each queue now stands (C-70).

        Asks by INVOKE_BROKER_TO_RESET_OFFSET (222).

        Args:
            group: Consumer group; its members may be running.
            topic: Only its queues are moved.
            time_ms: Epoch ms; -1 for the end.
            force: Also move queues back that are behind that moment.
            brokers: Only queues on these brokers; None for all.
        """
        masters = self._masters
        header = ResetOffsetRequestHeader(
            topic=topic, group=group, timestamp=time_ms, is_force=force
        )
        targets = await masters.of_topic(topic)
        if brokers is not None:
            targets = {name: address for name, address in targets.items() if name in brokers}
        answers = await masters.ask(targets, header, ResetOffsetBody)
        return by_queue(each.offset_table for each in answers)
