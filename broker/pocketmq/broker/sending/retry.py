"""Where a message that could not be consumed goes: `%RETRY%` or `%DLQ%` (B-80 to B-87).

The first delivery fails and 16 retries follow, each at the next delay level, from 10 s (level 3) to
2 h (level 18); after 1 + 16 deliveries the message lies in `%DLQ%group`, an ordinary topic.
"""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.store.stored_message import StoredMessage
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.hosts import pack_host, parse_host_text
from pocketmq.protocol.java import to_int32
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.properties import encode_again
from pocketmq.protocol.messages.subscription import tags_code

FIRST_RETRY_LEVEL = 3
"""Delay level of the first retry: 10 s."""

VERSION_WITH_MAX_RECONSUME_TIMES = 121
"""Clients from 3.4.9 on send their own limit (B-82)."""


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """What happens to a message that was sent back."""

    to_dlq: bool
    delay_level: int
    """0: at once."""


def max_reconsume_times(
    config: SubscriptionGroupConfig, header_value: int | None, version: int
) -> int:
    """How many retries the message has: the group's, or what a newer client says (B-82)."""
    if header_value is not None and version >= VERSION_WITH_MAX_RECONSUME_TIMES:
        return header_value
    return config.retry_max_times


def plan_send_back(reconsume_times: int, delay_level: int, max_times: int) -> RetryPlan:
    """Where a sent-back message goes (B-83).

    Args:
        reconsume_times: how often it was retried before.
        delay_level: from the consumer: negative gives the message up, 0 lets the broker choose.
        max_times: from `max_reconsume_times`.
    """
    # At its limit, or given up by the consumer: no more retries, whatever the level (B-83).
    if reconsume_times >= max_times or delay_level < 0:
        return RetryPlan(to_dlq=True, delay_level=0)
    return RetryPlan(to_dlq=False, delay_level=delay_level or FIRST_RETRY_LEVEL + reconsume_times)


# behaviour 69
def resend_goes_to_dlq(
    reconsume_times: int, max_times: int, *, when_equal: bool, holds_locks: bool
) -> bool:
    """Whether a plain send to a retry topic ends in `%DLQ%` (B-86).

    Args:
        reconsume_times: from the send header.
        max_times: from `max_reconsume_times`.
        when_equal: 4.9 gives up at the limit, 5.x beyond it.
        holds_locks: 5.x takes a group with a live queue lock for an ordered one, and such a group
            sends to its retry topic only when it has given up.
    """
    return (
        reconsume_times > max_times
        or (when_equal and reconsume_times == max_times)
        or (holds_locks)
    )


def sent_back(
    record: MessageExt, topic: str, queue_id: int, delay_level: int, store_host: bytes
) -> tuple[StoredMessage, dict[str, str]]:
    """The copy that is stored for a message that was sent back, and its properties (B-81, B-84).

    The caller passes both to `SafePuts.put`, which delays the copy.
    """
    properties = dict(record.properties)
    # Set only once: even after many retries it names the topic that the message came from (B-81).
    properties.setdefault(names.RETRY_TOPIC, record.topic)
    properties.setdefault(names.ORIGIN_MESSAGE_ID, record.offset_msg_id)
    # Nobody waits for this copy: the consumer's answer does not depend on the disk (B-81).
    properties[names.WAIT] = "false"
    properties[names.DELAY] = str(delay_level)  # 0 of a dead one, which is not delayed
    message = StoredMessage(
        topic=topic,
        queue_id=queue_id,
        body=record.raw_body,
        properties=encode_again(properties).encode(),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp_ms=record.born_timestamp_ms,
        born_host=pack_host(*parse_host_text(record.born_host)),
        store_host=store_host,
        # As Java's int, which begins anew: a message may be sent with the largest number there is.
        reconsume_times=to_int32(record.reconsume_times + 1),
        tags_code=tags_code(properties.get(names.TAGS)),
        uniq_key=properties.get(names.UNIQ_KEY),
        keys=properties.get(names.KEYS),
        wait_store_ok=False,
    )
    return message, properties
