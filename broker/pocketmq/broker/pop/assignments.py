"""Which queues a member of a group consumes when the broker decides it (K-20 to K-24); no I/O.

Clients compute the same from the same lists when they decide themselves; the strategies are shared.
A group that pops needs no queue of its own: every member pops every queue, as one entry per broker.
A share number lets each member pop the queues of only so many other members.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pocketmq.protocol.allocation.averagely import AllocateMessageQueueAveragely
from pocketmq.protocol.allocation.by_circle import AllocateMessageQueueAveragelyByCircle
from pocketmq.protocol.allocation.strategy import (
    AllocateMessageQueueStrategy,
    AllocationError,
    sorted_client_ids,
    sorted_queues,
)
from pocketmq.protocol.bodies.pop import (
    MessageRequestModes,
    QueueAssignment,
    RequestMode,
    RequestModeBody,
)
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.protocol.scalars import Perm
from pocketmq.runtime.signals import Signal

STRATEGIES: Mapping[str, Callable[[], AllocateMessageQueueStrategy]] = {
    "AVG": AllocateMessageQueueAveragely,
    "AVG_BY_CIRCLE": AllocateMessageQueueAveragelyByCircle,
}
"""Those that a broker computes; the name comes from a client."""

ANY_QUEUE = -1


class RequestModes:
    """Topic and group -> pull or pop; `messageRequestMode.json` (K-26).

    Args:
        default: for groups for which no mode was set, now: the mode, and how many other members'
            queues a member pops.
    """

    def __init__(
        self, default: Callable[[], tuple[RequestMode, int]] = lambda: ("PULL", -1)
    ) -> None:
        self.changed: Signal[[]] = Signal()
        self._default = default
        self._modes: dict[str, dict[str, RequestModeBody]] = {}

    def of(self, topic: str, group: str) -> RequestModeBody:
        """How the group gets the topic's messages (K-20)."""
        known = self._modes.get(topic, {}).get(group)
        if known is not None:
            return known
        default_mode, default_share = self._default()
        # Retry topics are pulled by default, because pop reads them by itself (K-20, K-33).
        mode: RequestMode = "PULL" if is_retry(topic) else default_mode
        share = default_share if mode == "POP" else 0
        return RequestModeBody(
            topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share
        )

    def set(self, mode: RequestModeBody) -> None:
        """Pull or pop from now on."""
        self._modes.setdefault(mode.topic, {})[mode.consumer_group] = mode
        self.changed.emit()

    def load(self, stored: MessageRequestModes) -> None:
        """Take over what the file holds."""
        self._modes = {t: dict(groups) for t, groups in stored.message_request_mode_map.items()}

    def replace(self, master: MessageRequestModes) -> None:
        """Become a copy of the master's."""
        # Only if it differs, because each change writes the file.
        if master.message_request_mode_map != self._modes:
            self.load(master)
            self.changed.emit()

    def wrapper(self) -> MessageRequestModes:
        """As they are stored and shown (402)."""
        return MessageRequestModes(message_request_mode_map=self._modes)


def readable_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Every queue of a topic that can be read, sorted."""
    queues = (
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & Perm.READ
        for queue_id in range(data.read_queue_nums)
    )
    return sorted_queues(queues)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The client that asks."""

    group: str
    client_id: str
    strategy: str
    broadcasting: bool = False


def assign(
    question: Question,
    mode: RequestModeBody,
    queues: Sequence[MessageQueue] | None,
    members: Collection[str] | None,
    *,
    balancing: bool = True,
) -> list[QueueAssignment] | None:
    """The client's queues; None when it is to keep what it has (K-22).

    Args:
        question: who asks, and the strategy that it names.
        mode: pull or pop.
        queues: of the topic, sorted; None when its route is not known.
        members: client ids of the group; None when there is no such group.
        balancing: False gives every member all queues.
    """
    # None makes the client keep its queues, an empty list makes it give them up (K-22).
    if queues is None:
        return None
    if question.broadcasting or not balancing:
        return _as_assignments(queues, mode.mode)
    make = STRATEGIES.get(question.strategy)
    if not members or make is None:
        return None
    try:
        found = _allocate(question, mode, queues, sorted_client_ids(members), make())
    except AllocationError:
        return None
    return _as_assignments(found, mode.mode)


def _allocate(
    question: Question,
    mode: RequestModeBody,
    queues: Sequence[MessageQueue],
    members: Sequence[str],
    strategy: AllocateMessageQueueStrategy,
) -> Sequence[MessageQueue]:
    def own(client_id: str) -> Sequence[MessageQueue]:
        return strategy.allocate(question.group, client_id, queues, members) or ()

    if mode.mode == "PULL":
        return own(question.client_id)
    share = mode.pop_share_queue_num
    # With a share this large, every member pops all queues: one entry for each broker (K-24).
    if share <= 0 or share >= len(members) - 1:
        return [MessageQueue(queue.topic, queue.broker_name, ANY_QUEUE) for queue in queues]
    # A client without a heartbeat here has no queues yet (K-25).
    if question.client_id not in members:
        return ()
    index = members.index(question.client_id)
    # Fewer queues than members: each member gets one queue, which several share (K-24).
    if len(members) > len(queues):
        return [queues[index % len(queues)]] if queues else ()
    # Its own queues and those of the next members in the ring (K-24).
    sharing = [members[(index + step) % len(members)] for step in range(share + 1)]
    return [queue for client_id in sharing for queue in own(client_id)]


def _as_assignments(queues: Sequence[MessageQueue], mode: RequestMode) -> list[QueueAssignment]:
    # Equal entries are one: a broker whose every queue is popped stands here once.
    return [QueueAssignment(message_queue=queue, mode=mode) for queue in dict.fromkeys(queues)]
