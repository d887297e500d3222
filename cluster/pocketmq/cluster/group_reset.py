"""Sets a consumer group's offsets in a topic; can show the changes first, queue by queue."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.client import Admin
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.errors import CallerError

START_MS = 0
"""The time that means the begin of a queue."""
END_MS = -1
"""The time that means the end of a queue in INVOKE_BROKER_TO_RESET_OFFSET (222) (E-30)."""


@dataclass(frozen=True, slots=True)
class QueueMove:
    """A group's offset in one queue before and after a reset."""

    queue: MessageQueue
    before: int | None
    """None if no offset is committed, in which case ConsumeFromWhere decides."""
    after: int

    def __str__(self) -> str:
        place = f"{self.queue.broker_name}/{self.queue.queue_id}"
        if self.before is None:
            return f"{place} -> {self.after}"
        by = self.after - self.before
        what = f"{by} are skipped" if by > 0 else f"{-by} come again" if by < 0 else "unchanged"
        return f"{place} {self.before} -> {self.after}  {what}"


async def plan_reset(admin: Admin, group: str, topic: str, time_ms: int) -> list[QueueMove]:
    """The changes that a reset would make now, on the brokers that know the group.

    Args:
        admin: Client of the cluster; nothing is changed.
        group: The consumer group.
        topic: The topic in whose queues offsets are set.
        time_ms: Epoch ms of the first message to consume; `START_MS` for the first one stored,
            `END_MS` for the next one to be stored.

    Raises:
        CallerError: No broker with queues of the topic knows the group.
    """
    queues = await admin.subscribe_queues(topic)
    brokers = {queue.broker_name for queue in queues}
    # A broker refuses to reset an unknown group, which must not stop the others.
    knowing = {name for name in brokers if group in await admin.groups(name)}
    if not knowing:
        raise CallerError(
            f"no broker knows group {group!r}, because no consumer has used this name yet; "
            "`pocketmq group list` shows all groups"
        )
    moves = []
    for queue in queues:
        if queue.broker_name not in knowing:
            continue
        before = await admin.consumer_offset(group, queue)
        # Only the reset request takes -1 for the end, `search_offset` does not (E-30).
        if time_ms == END_MS:
            after = await admin.max_offset(queue)
        else:
            after = await admin.search_offset(queue, time_ms)
        moves.append(QueueMove(queue, before, after))
    return moves


async def reset_group(admin: Admin, group: str, topic: str, time_ms: int) -> list[QueueMove]:
    """Reset a group, whether its members run or not (C-70); returns the changes.

    A 4.9 broker can only push new offsets to members; where none is connected, this commits them
    in the members' place, as RocketMQ's admin tool does. A broker that does not know the group is
    left out.

    Raises:
        CallerError: No broker with queues of the topic knows the group.
        BrokerError: A broker refused; those asked before it have already reset the group.
    """
    planned = await plan_reset(admin, group, topic, time_ms)
    before = {move.queue: move.before for move in planned}
    moves = []
    # One by one, to find the brokers of 4.9 without members.
    for broker in dict.fromkeys(move.queue.broker_name for move in planned):
        try:
            moved = await admin.reset_offset(group, topic, time_ms, brokers=[broker])
        except BrokerError as exc:
            if exc.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            here = [move for move in planned if move.queue.broker_name == broker]
            for move in here:
                # Set directly: no member is running that could still have another offset in memory.
                await admin.update_consumer_offset(group, move.queue, move.after)
            moves += here
        else:
            moves += [QueueMove(queue, before.get(queue), to) for queue, to in moved.items()]
    return moves
