"""One pull that waits for messages (B-70)."""

from __future__ import annotations

from collections.abc import Sequence

from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.headers.pull import PullMessageRequestHeader
from pocketmq.protocol.subscription import SubscriptionData


class HeldPull:
    """One waiting pull."""

    __slots__ = ("deadline_at", "header", "peer", "queue", "request", "subscription")

    def __init__(
        self,
        peer: Peer,
        request: Command,
        header: PullMessageRequestHeader,
        subscription: SubscriptionData,
        deadline_at: float,
    ) -> None:
        self.peer = peer
        self.request = request
        self.header = header
        self.queue = (header.topic, header.queue_id)
        self.subscription = subscription
        self.deadline_at = deadline_at
        """The caller's monotonic seconds at which it must be answered."""

    def wants(self, first_offset: int, codes: Sequence[int]) -> bool:
        """Whether any of these messages, the first at `first_offset`, may be for this pull."""
        skip = self.header.queue_offset - first_offset
        if skip >= len(codes):
            return False
        subscription = self.subscription
        if subscription.subscribes_all:
            return True
        return any(map(subscription.matches, codes[skip:] if skip > 0 else codes))

    def is_behind(self, max_offset: int) -> bool:
        """Whether the queue has messages at the pull's offset; tags are not compared (B-73)."""
        return max_offset > self.header.queue_offset
