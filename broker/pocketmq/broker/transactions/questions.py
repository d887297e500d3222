"""CHECK_TRANSACTION_STATE (39): asks a producer what became of its half message (X-45, X-46)."""

from __future__ import annotations

import structlog

from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.transactions.half_messages import with_real_topic
from pocketmq.protocol.headers.transactions import CheckTransactionStateRequestHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.validation import HALF_TOPIC

log = structlog.get_logger()

TRIES = 3
"""Members of a producer group that are looked at for one that can be asked (X-46)."""


class Questions:
    """Asks the members of a producer group by turns.

    Args:
        producers: who is connected.
        broker_name: goes into the questions.
    """

    def __init__(self, producers: ProducerManager, broker_name: str) -> None:
        self._producers = producers
        self._broker_name = broker_name
        self._turn = 0

    def ask(self, half: MessageExt) -> None:
        """Ask about a half message at its present place; only logs when no producer is there."""
        group = half.properties.get(names.PRODUCER_GROUP, "")
        members = self._producers.members(group)
        # A member may have disconnected: try a few, then leave the message to the next round.
        for _ in range(min(TRIES, len(members))):
            self._turn += 1
            # In turns, so that one producer does not get all the questions (B-30).
            channel = members[self._turn % len(members)].channel
            if not channel.is_open:
                continue
            key = half.properties.get(names.UNIQ_KEY)
            channel.oneway(
                CheckTransactionStateRequestHeader(
                    tran_state_table_offset=half.queue_offset,
                    commit_log_offset=half.commit_log_offset,
                    # Producers know a message only by its unique key, so both ids carry it.
                    msg_id=key,
                    transaction_id=key,
                    offset_msg_id=half.offset_msg_id,
                    topic=HALF_TOPIC,
                    bname=self._broker_name,
                ),
                with_real_topic(half),
            )
            return
        # The count of checks was raised all the same, so this does not go on for ever.
        log.warning("transaction.nobody_to_ask", group=group, msg_id=half.msg_id)
