"""OFFSET_MOVED_EVENT: 4.9 leaves a message about each pull that it moves (B-65)."""

from __future__ import annotations

import msgspec

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.store import StoredMessage
from pocketmq.broker.storing.safe_puts import SafePuts
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.messages.validation import OFFSET_MOVED_TOPIC
from pocketmq.runtime.clock import Clock


class OffsetMovedEvents:
    """Writes the events.

    Args:
        puts: stores them.
        address: born host of the events.
        clock: born timestamp of the events.
        broker_name: in the queue of each event.
    """

    def __init__(
        self, puts: SafePuts, address: BrokerAddress, clock: Clock, broker_name: str
    ) -> None:
        self._puts = puts
        self._address = address
        self._clock = clock
        self._broker_name = broker_name

    def note(self, header: PullMessageRequestHeader, new_offset: int) -> None:
        """A pull was answered with PULL_OFFSET_MOVED (21)."""
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
            # 4.9 writes the group as tag and key (B-65).
            properties=f"TAGS\x01{group}\x02KEYS\x01{group}\x02".encode(),
            flag=0,
            sys_flag=0,
            born_timestamp_ms=self._clock.time_ms(),
            born_host=self._address.packed,
            store_host=self._address.packed,
            tags_code=tags_code(group),
            keys=group,
            # Nobody waits until this message is stored.
            wait_store_ok=False,
        )
        self._puts.put(message)
