"""AVG_BY_CIRCLE: queues are given to the members one by one, in turn (A-20).

    8 queues, 3 clients        c1 [0 3 6]  c2 [1 4 7]  c3 [2 5]

Where AVG keeps a client on few brokers, the circle spreads it over all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.protocol.allocation.strategy import is_member
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted, ordinal


class AllocateMessageQueueAveragelyByCircle:
    """Client number i gets the queues i, i + C, i + 2C, ..."""

    name = "AVG_BY_CIRCLE"

    # behaviour 33
    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> list[MessageQueue]:
        if not is_member(self.name, consumer_group, current_cid, mq_all, cid_all):
            return []
        return list(mq_all[cid_all.index(current_cid) :: len(cid_all)])

    def explain(
        self, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> str:
        clients = len(cid_all)
        if current_cid not in cid_all:
            return f"not among the {counted(clients, 'member')}, so nothing"
        index = cid_all.index(current_cid)
        sizes = f"{counted(len(mq_all), 'queue')} / {counted(clients, 'member')}"
        return f"{sizes}: position {index} and each {ordinal(clients)} on"
