"""CONFIG: a fixed list, whatever the group looks like (A-40).

No check and no look at the topic: queues that do not exist are pulled and fail, overlapping lists
give a queue two owners, and nobody takes over from a member that died.
"""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted


class AllocateMessageQueueByConfig:
    """Exactly the configured queues; None for none."""

    name = "CONFIG"

    def __init__(self, message_queues: Sequence[MessageQueue] | None = None) -> None:
        self.message_queues = message_queues

    # behaviour 38
    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> Sequence[MessageQueue] | None:
        return self.message_queues

    def explain(
        self, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> str:
        return f"configured for this member: {counted(len(self.message_queues or ()), 'queue')}"
