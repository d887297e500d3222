"""AVG, the default: neighbouring queues in blocks of equal size (A-10).

    8 queues, 3 clients        c1 [0 1 2]  c2 [3 4 5]  c3 [6 7]
    2 queues, 3 clients        c1 [0]      c2 [1]      c3 []

Queues are sorted broker by broker, so a client's block mostly lies on few brokers. With Q queues
and C clients, client number i (from 0) gets

    size    Q // C, and one more for the first Q % C clients
    start   i * size, and Q % C more for the clients after those
"""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.protocol.allocation.strategy import is_member
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted


class AllocateMessageQueueAveragely:
    """Blocks of `Q // C` queues; the first `Q % C` clients get one more."""

    name = "AVG"

    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> list[MessageQueue]:
        """A run of neighbours, as long as that of others or one longer (A-10)."""
        if not is_member(self.name, consumer_group, current_cid, mq_all, cid_all):
            return []
        start, count = block(len(mq_all), len(cid_all), cid_all.index(current_cid))
        return list(mq_all[start : start + count])

    def explain(
        self, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> str:
        queues, clients = len(mq_all), len(cid_all)
        if current_cid not in cid_all:
            return f"not among the {counted(clients, 'member')}, so nothing"
        index = cid_all.index(current_cid)
        start, count = block(queues, clients, index)
        where = f"{count} from position {start}" if count else "none left"
        sizes = f"{counted(queues, 'queue')} / {counted(clients, 'member')}"
        return f"{sizes}, I am number {index}: {where}"


# behaviours 11, 14, 32 and 61
def block(queues: int, clients: int, index: int) -> tuple[int, int]:
    """Where client number `index` begins and how many queues it gets.

    The last clients get nothing when there are more of them than queues.
    """
    remainder = queues % clients
    one_more = index < remainder
    size = 1 if queues <= clients else queues // clients + one_more
    start = index * size if one_more else index * size + remainder
    # With fewer queues than clients, the last clients get none.
    return start, max(0, min(size, queues - start))
