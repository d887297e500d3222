"""Moving a consumer group to another place in a topic, seen queue by queue before it is done."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.client import Admin
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.message import MessageQueue

START_MS = 0
"""Before every message."""
END_MS = -1
"""The time that means the end of a queue in INVOKE_BROKER_TO_RESET_OFFSET (222) (E-30)."""


@dataclass(frozen=True, slots=True)
class QueueMove:
    """Where a group goes on in one queue, and where it would without the reset."""

    queue: MessageQueue
    before: int | None
    """None: nothing is committed, so ConsumeFromWhere decides."""
    after: int

    def __str__(self) -> str:
        place = f"{self.queue.broker_name}/{self.queue.queue_id}"
        if self.before is None:
            return f"{place} -> {self.after}"
        by = self.after - self.before
        what = f"{by} are skipped" if by > 0 else f"{-by} come again" if by < 0 else "stays"
        return f"{place} {self.before} -> {self.after}  {what}"


async def plan_reset(admin: Admin, group: str, topic: str, time_ms: int) -> list[QueueMove]:
    """What a reset would do now.

    Args:
        admin: Asks the brokers; nothing is changed.
        group: Consumer group.
        topic: Whose queues.
        time_ms: Epoch ms; `START_MS` and `END_MS` for all and for none of what is stored.
    """
    moves = []
    for queue in await admin.subscribe_queues(topic):
        before = await admin.consumer_offset(group, queue)
        if time_ms == END_MS:
            after = await admin.max_offset(queue)
        else:
            after = await admin.search_offset(queue, time_ms)
        moves.append(QueueMove(queue, before, after))
    return moves


async def reset_group(admin: Admin, group: str, topic: str, time_ms: int) -> list[QueueMove]:
    """Move a group, whether its members run or not; what was done, from just before (C-70).

    A 4.9 broker can only push new offsets to members; where none is connected, they are committed
    in their place, as RocketMQ's own admin tool does.

    Raises:
        BrokerError: A broker refused; those asked before it have moved the group already.
    """
    planned = await plan_reset(admin, group, topic, time_ms)
    try:
        moved = await admin.reset_offset(group, topic, time_ms)
    except BrokerError as exc:
        if exc.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
        for move in planned:
            await admin.update_consumer_offset(group, move.queue, move.after)
        return planned
    before = {move.queue: move.before for move in planned}
    return [QueueMove(queue, before.get(queue), after) for queue, after in moved.items()]
