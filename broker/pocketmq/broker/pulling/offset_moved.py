"""OFFSET_MOVED_EVENT: 4.9 leaves a message about each pull that it moves (B-65)."""

from __future__ import annotations

import msgspec

from pocketmq.broker.store import MessageStore, StoredMessage
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.subscription import tags_code
from pocketmq.protocol.validation import OFFSET_MOVED_TOPIC
from pocketmq.runtime.clock import Clock


class OffsetMovedEvents:
    """Writes the events.

    Args:
        store: where they go.
        clock: when they were born.
        broker_name: in the queue of each event.
    """

    def __init__(self, store: MessageStore, clock: Clock, broker_name: str) -> None:
        self._store = store
        self._clock = clock
        self._broker_name = broker_name
        self._store_host = b""

    def open(self, store_host: bytes) -> None:
        """Know the address that goes into the messages."""
        self._store_host = store_host

    def note(self, header: PullMessageRequestHeader, new_offset: int) -> None:
        """A pull was answered with 21."""
        group = header.consumer_group
        event = {
            "consumerGroup": group,
            "messageQueue": {
                "brokerName": self._broker_name,
                "queueId": header.queue_id,
                "topic": header.topic,
            },
            "offsetNew": new_offset,
            "offsetRequest": header.queue_offset,
        }
        message = StoredMessage(
            topic=OFFSET_MOVED_TOPIC,
            queue_id=0,
            body=msgspec.json.encode(event),
            properties=f"TAGS\x01{group}\x02KEYS\x01{group}\x02".encode(),
            flag=0,
            sys_flag=0,
            born_timestamp_ms=self._clock.time_ms(),
            born_host=self._store_host,
            store_host=self._store_host,
            tags_code=tags_code(group),
            keys=group,
            wait_store_ok=False,
        )
        self._store.put_messages([message])
