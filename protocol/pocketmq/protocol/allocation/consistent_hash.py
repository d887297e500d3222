"""CONSISTENT_HASH: clients and queues on a ring of MD5 points; few queues move (A-30).

Each client stands on the ring at `virtual_nodes` points, hash(`<clientId>-<n>`). A queue belongs
to the first point at or after hash(`MessageQueue [topic=T, brokerName=B, queueId=N]`), wrapping
around. When a client leaves, only its own queues move. The shares are visibly uneven: the purpose
is low movement, not balance.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Sequence

from pocketmq.protocol.allocation.strategy import AllocationError, is_member
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.words import counted

HashFunction = Callable[[str], int]

DEFAULT_VIRTUAL_NODES = 10


def md5_hash(key: str) -> int:
    """The first four bytes of the MD5 digest as an unsigned big-endian number."""
    digest = hashlib.md5(key.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")


class AllocateMessageQueueConsistentHash:
    """A ring per decision: O((C x virtual nodes + Q) x log).

    Args:
        virtual_nodes: Points per client; 0 gives nobody anything, as in RocketMQ.
        hash_function: Text -> ring position.

    Raises:
        AllocationError: `virtual_nodes` is negative.
    """

    name = "CONSISTENT_HASH"

    def __init__(
        self,
        virtual_nodes: int = DEFAULT_VIRTUAL_NODES,
        hash_function: HashFunction = md5_hash,
    ) -> None:
        if virtual_nodes < 0:
            raise AllocationError(self.name, f"{virtual_nodes} virtual nodes; give 0 or more")
        self._virtual_nodes = virtual_nodes
        self._hash = hash_function

    # behaviour 34
    def allocate(
        self,
        consumer_group: str,
        current_cid: str,
        mq_all: Sequence[MessageQueue],
        cid_all: Sequence[str],
    ) -> list[MessageQueue]:
        if not is_member(self.name, consumer_group, current_cid, mq_all, cid_all):
            return []
        points = self._ring(cid_all)
        if not points:
            return []
        positions = sorted(points)
        last = len(positions)
        mine = []
        for queue in mq_all:
            at = bisect_left(positions, self._hash(str(queue)))
            # Past the last point, the ring wraps around to the first.
            if points[positions[at if at < last else 0]] == current_cid:
                mine.append(queue)
        return mine

    def explain(
        self, current_cid: str, mq_all: Sequence[MessageQueue], cid_all: Sequence[str]
    ) -> str:
        mine = self.allocate("", current_cid, mq_all, cid_all)
        return (
            f"{counted(len(mq_all), 'queue')} on a ring of {counted(len(cid_all), 'member')} x "
            f"{self._virtual_nodes} points: {len(mine)} hash just before one of mine"
        )

    def _ring(self, cid_all: Sequence[str]) -> dict[int, str]:
        """Position -> client id; of two points in one place the later client's stays."""
        points: dict[int, str] = {}
        seen: dict[str, int] = {}
        for client_id in cid_all:
            # A duplicated id goes on numbering after the points it already has on the ring.
            first = 0
            if client_id in seen:
                first = sum(1 for owner in points.values() if owner == client_id)
            seen[client_id] = first
            for number in range(first, first + self._virtual_nodes):
                points[self._hash(f"{client_id}-{number}")] = client_id
        return points
