"""Reads queues of a topic without a group: ranges of them, and what arrives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pocketmq.client import Admin, MessageExt, MessageQueue, PullStatus
from pocketmq.cluster.messages.positions import Position, QueueName
from pocketmq.protocol.bodies.offsets import TopicOffset
from pocketmq.protocol.errors import (
    BrokerError,
    BrokerNotFoundError,
    NoNameServerError,
    RemotingError,
    RequestTimeoutError,
)
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import CallerError, PocketMQError
from pocketmq.runtime.tasks import TaskOwner

WAIT_MS: Final = 15_000
"""For how long a broker holds the pull of a queue at whose end we are."""
AGAIN_S: Final = 1.0
"""Real seconds before a broker that did not answer is asked again."""
WAITING: Final = 64
"""Messages that were read and not yet taken."""


@dataclass(frozen=True, slots=True)
class QueueRange:
    """Messages of one queue, from the first offset to before the second."""

    queue: MessageQueue
    begin: int
    end: int

    @property
    def count(self) -> int:
        """How many offsets; fewer messages where some are gone."""
        return max(0, self.end - self.begin)


async def bounds_of(
    admin: Admin, topic: str, only: Sequence[QueueName] = ()
) -> dict[MessageQueue, TopicOffset]:
    """Oldest offset and end of each queue of a topic, or of those that are named.

    Raises:
        TopicNotFoundError: there is no such topic.
        CallerError: it has no such queue.
    """
    stats = await admin.topic_stats(topic)
    if not only:
        return stats
    # The name is kept for the error message.
    wanted = {MessageQueue(topic, each.broker, each.queue): each for each in only}
    for queue, name in wanted.items():
        if queue not in stats:
            known = ", ".join(f"{each.broker_name}/{each.queue_id}" for each in stats)
            raise CallerError(f"topic {topic} has no queue {name}; its queues are {known}")
    return {queue: offsets for queue, offsets in stats.items() if queue in wanted}


async def ranges(
    admin: Admin,
    bounds: Mapping[MessageQueue, TopicOffset],
    begin: Position,
    end: Position,
    now_ms: int,
) -> list[QueueRange]:
    """Where reading begins and ends in each queue.

    Args:
        admin: Looks times up.
        bounds: From `bounds_of`.
        begin: Of the first message.
        end: Of the first one that is left out.
        now_ms: The cluster's present, for durations.
    """
    return [
        QueueRange(
            queue,
            await _offset(admin, queue, offsets, begin, now_ms),
            await _offset(admin, queue, offsets, end, now_ms),
        )
        for queue, offsets in bounds.items()
    ]


async def _offset(
    admin: Admin, queue: MessageQueue, offsets: TopicOffset, where: Position, now_ms: int
) -> int:
    low, high = offsets.min_offset, offsets.max_offset
    if where.offset is not None:
        found = where.offset
    elif where.before_end is not None:
        found = high - where.before_end
    else:
        moment = now_ms - where.ago_ms if where.ago_ms is not None else where.time_ms
        found = await admin.search_offset(queue, moment or 0)
    # Limited to what is stored: too early means the oldest message, too late means the end.
    return min(max(low, found), high)


async def read_range(
    admin: Admin, wanted: QueueRange, expression: str = "*"
) -> AsyncGenerator[MessageExt, None]:
    """The messages of one range, in their order; ends early where the queue does."""
    offset = wanted.begin
    while offset < wanted.end:
        pulled = await admin.read(wanted.queue, offset, expression=expression)
        for message in pulled.messages:
            if message.queue_offset >= wanted.end:
                return
            yield message
        # Also ends if a broker returns the same offset, which would go on for ever.
        if pulled.status is PullStatus.NO_NEW_MSG or pulled.next_begin_offset <= offset:
            return
        offset = pulled.next_begin_offset


async def message_at(admin: Admin, queue: MessageQueue, offset: int) -> MessageExt | None:
    """The message at one offset of a queue; None if there is none (any more)."""
    pulled = await admin.read(queue, offset, max_count=1)
    found = pulled.messages[0] if pulled.messages else None
    # A pull at a deleted offset returns the next message instead.
    return found if found is not None and found.queue_offset == offset else None


async def follow(
    admin: Admin, begins: Mapping[MessageQueue, int], expression: str = "*"
) -> AsyncGenerator[MessageExt, None]:
    """Messages of queues from their offsets on, as they arrive; never ends by itself.

    Close it after use (`contextlib.aclosing`). A broker that goes away is asked again each second.
    """
    # Bounded, so that brokers are read no faster than the caller consumes.
    arrived: asyncio.Queue[MessageExt] = asyncio.Queue(WAITING)

    async def watch(queue: MessageQueue, offset: int) -> PocketMQError:
        try:
            while True:
                offset = await _pull_on(admin, queue, offset, expression, arrived)
        except PocketMQError as exc:
            # Returned, so that the loop below raises it where the caller can catch it.
            return exc

    async with TaskOwner("tail") as tasks:
        watches = [
            tasks.start(watch(queue, offset), name=f"{queue.broker_name}/{queue.queue_id}")
            for queue, offset in begins.items()
        ]
        while True:
            # A task, since the wait below also covers watches that fail.
            taken = tasks.start(arrived.get(), name="next")
            await asyncio.wait([taken, *watches], return_when=asyncio.FIRST_COMPLETED)
            # Checked first: a lasting error must not wait behind messages.
            for ended in watches:
                if ended.done():
                    raise ended.result()
            yield await taken


async def _pull_on(
    admin: Admin,
    queue: MessageQueue,
    offset: int,
    expression: str,
    arrived: asyncio.Queue[MessageExt],
) -> int:
    """Pull once; the offset to go on with."""
    try:
        pulled = await admin.read(queue, offset, expression=expression, wait_ms=WAIT_MS)
    except RequestTimeoutError:
        # The broker held the pull until its end, and nothing came.
        return offset
    except (RemotingError, NoNameServerError, BrokerNotFoundError):
        # The broker may be restarting; reading continues at the same offset.
        await SystemClock().sleep(AGAIN_S)
        return offset
    except BrokerError as exc:
        if not exc.retriable:
            raise
        await SystemClock().sleep(AGAIN_S)
        return offset
    for message in pulled.messages:
        await arrived.put(message)
    return pulled.next_begin_offset
