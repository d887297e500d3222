"""Finds messages by what people have of them: an id, or topic, queue and offset."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Final

from pocketmq.client import Admin, MessageExt, MessageQueue
from pocketmq.cluster.messages.positions import queue_name
from pocketmq.cluster.messages.reading import message_at
from pocketmq.protocol.errors import BrokerError, IllegalNameError
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.validation import (
    HALF_TOPIC,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    check_topic,
    is_system_topic,
)
from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.errors import CallerError

AT_ONCE: Final = 16
"""Topics that are searched at the same time."""
WAITING_ROOMS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC)
"""System topics in which a message waits for its time or its transaction."""


class UnknownMessageError(CallerError):
    """No broker has the message."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(
            f"no message {what} {where}: it never came, or is deleted; give its id, or topic, "
            "queue and offset as in `orders broker-a/0 17`"
        )


async def find_message(
    admin: Admin, words: Sequence[str], topics: Sequence[str] = ()
) -> MessageExt:
    """The message that is meant; of several copies the first that consumers can see.

    Args:
        admin: Asks brokers.
        words: A unique id or offset id; or a topic, a queue and an offset.
        topics: Only these are searched for a unique id; by default all.

    Raises:
        UnknownMessageError: there is none.
        CallerError: the words name no message.
    """
    if len(words) == 3:
        return await _at_place(admin, *words)
    if len(words) != 1:
        raise CallerError(
            "name one message by its id, or by topic, queue and offset as in `orders broker-a/0 17`"
        )
    # The offset id first: it takes one request to one broker, a unique id one for each topic.
    found = await _by_offset_id(admin, words[0])
    if found is not None:
        return found
    copies = await find_copies(admin, words[0], topics)
    if not copies:
        where = f"in {', '.join(topics)}" if topics else "in any topic"
        raise UnknownMessageError(repr(words[0]), where)
    # Preferably not a copy that waits in a system topic, which is not the one that people mean.
    return next((copy for copy in copies if not is_system_topic(copy.topic)), copies[0])


async def find_copies(admin: Admin, uniq_key: str, topics: Iterable[str] = ()) -> list[MessageExt]:
    """Every stored copy of a message, oldest first.

    A retry, a delay and a transaction each store it once more, under the same unique id.

    Args:
        admin: Asks brokers.
        uniq_key: Its unique id.
        topics: Only these are searched; by default all that nameservers know, and those in which
            messages wait.
    """
    # Nameservers do not list system topics, but copies may be waiting there.
    names = sorted(set(topics) or {*await admin.topics(), *WAITING_ROOMS})
    found: list[MessageExt] = []
    # A few at a time: each asks every broker, and a cluster may have thousands of topics.
    for start in range(0, len(names), AT_ONCE):
        answers = await asyncio.gather(
            *(
                admin.query_messages(topic, uniq_key, by_uniq_key=True, everywhere=True)
                for topic in names[start : start + AT_ONCE]
            )
        )
        for messages in answers:
            found += messages
    # Copies within one millisecond are ordered by their place in the broker's log.
    return sorted(found, key=lambda copy: (copy.store_timestamp_ms, copy.commit_log_offset))


async def _at_place(admin: Admin, topic: str, queue: str, offset: str) -> MessageExt:
    check_topic(topic)
    name = queue_name(queue)
    if not (offset.isascii() and offset.isdigit()):
        raise CallerError(f"{offset!r} is not an offset; write a number")
    where = MessageQueue(topic, name.broker, name.queue)
    found = await message_at(admin, where, int(offset))
    if found is None:
        raise UnknownMessageError(f"at offset {offset}", f"of {topic} {name}")
    return found


async def _by_offset_id(admin: Admin, text: str) -> MessageExt | None:
    """The message of an offset id; None for a unique id, which looks the same."""
    try:
        host, port, _ = parse_offset_msg_id(text)
    except IllegalNameError:
        return None
    address = address_text(host, port)
    for name, replicas in (await admin.brokers(masters_only=False)).items():
        # Only this cluster's addresses: the 32 hex digits of a unique id decode to some address
        # too.
        if address in replicas.values():
            try:
                found = await admin.view_message(text)
            except BrokerError:
                # The message is gone, or it is a unique id that looks like such an address.
                return None
            found.broker_name = name
            return found
    return None
