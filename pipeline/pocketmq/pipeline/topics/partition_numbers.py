"""Kafka's partition numbers for queues: with topic and offset they are a key.

    crc32(broker name) % 1048575 + 1   x 2048   + queue id

A number says of its queue which one it is, and nothing of the others. So it stays the same while
topics get more queues, brokers come, and brokers are away; in batches, streams and the sink; and
for a topic that is deleted and created again. Numbers have gaps. Two brokers may get the same: then
nothing is read or written by numbers, as there would be two messages under one key.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Final

from pocketmq.pipeline.errors import OptionError
from pocketmq.protocol.messages.message import MessageQueue

QUEUES: Final = 2048
"""Numbers of a broker."""
_BROKERS: Final = 2**31 // QUEUES - 1


def partition_number(queue: MessageQueue) -> int:
    """The number of a queue, from 2048 to 2**31 - 1."""
    # From the name alone: a number that depended on other brokers would change with them.
    broker = zlib.crc32(queue.broker_name.encode()) % _BROKERS + 1
    return broker * QUEUES + queue.queue_id


def partition_numbers(
    queues: Iterable[MessageQueue], known: Mapping[MessageQueue, int] | None = None
) -> dict[MessageQueue, int]:
    """The numbers of queues.

    Args:
        queues: The queues.
        known: Numbers that some have already, and keep; also of queues that are not there now.

    Raises:
        OptionError: Two queues of a topic would have one number, or a broker has too many queues.
    """
    known = known or {}
    taken = {(queue.topic, number): queue for queue, number in known.items()}
    found: dict[MessageQueue, int] = {}
    # Sorted, so that an error always names the same queues.
    for queue in sorted(set(queues)):
        number = known.get(queue)
        if number is None:
            number = partition_number(queue)
        other = taken.setdefault((queue.topic, number), queue)
        # The number would lie in the next broker's range.
        if queue.queue_id >= QUEUES and queue not in known:
            raise _error(
                f"{queue} has no partition number: only the first {QUEUES} queues of a broker "
                "have a number"
            )
        if other != queue:
            raise _error(f"{queue} and {other} have the same partition number {number}")
        found[queue] = number
    return found


def numbers_by_place(queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
    """Each topic's queues numbered from 0, by broker name and queue id.

    So did earlier versions, whose streams keep these numbers.
    """
    numbers: dict[MessageQueue, int] = {}
    next_number: dict[str, int] = {}
    for queue in sorted(queues):
        numbers[queue] = next_number.get(queue.topic, 0)
        next_number[queue.topic] = numbers[queue] + 1
    return numbers


def _error(problem: str) -> OptionError:
    advice = "use columns brokerName and queueId instead"
    return OptionError("pocketmq", "kafkaCompatible", f"{problem}; {advice}")
