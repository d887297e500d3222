"""Events between subjects: one typed `Signal` each, made before all subjects.

A subject emits a signal; others connect to it in their assembly. Declare a new signal here, with
its arguments and who emits it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pocketmq.protocol.dispatch import Peer
from pocketmq.runtime.signals import Signal

Arrival = Callable[[str, int, int, Sequence[int]], object]
"""Takes (topic, queue id, new max offset, tags codes in order)."""


class ArrivalSignal:
    """A `Signal` whose listeners may ask for one topic only, as every send emits it."""

    __slots__ = ("_listeners", "_of_topic")

    def __init__(self) -> None:
        self._listeners: tuple[Arrival, ...] = ()
        self._of_topic: dict[str, tuple[Arrival, ...]] = {}
        """Topic that some asked for -> its listeners, those of all topics included."""

    def connect(self, listener: Arrival, topic: str | None = None) -> None:
        """Call `listener` at every `emit` from now on, or only at those of one topic."""
        if topic is not None:
            self._of_topic[topic] = (*self._of_topic.get(topic, self._listeners), listener)
            return
        self._listeners = (*self._listeners, listener)
        self._of_topic = {name: (*every, listener) for name, every in self._of_topic.items()}

    def emit(self, topic: str, queue_id: int, max_offset: int, codes: Sequence[int]) -> None:
        """Call the listeners of the topic, in the order in which they were connected."""
        for listener in self._of_topic.get(topic, self._listeners):
            listener(topic, queue_id, max_offset, codes)


@dataclass(frozen=True, slots=True)
class BrokerSignals:
    """All of one broker; they are emitted in its loop's thread, never from another."""

    message_arrived: ArrivalSignal = field(default_factory=ArrivalSignal)
    """(topic, queue id, new max offset, tags codes in order): messages of a queue became readable.
    Emitted by the store, once per queue and append, inside the put. Do little, and defer the rest.
    """

    channel_closed: Signal[[Peer]] = field(default_factory=Signal)
    """(peer): a client's connection ended; not emitted while the broker stops."""

    nameserver_lost: Signal[[Peer]] = field(default_factory=Signal)
    """(peer): a connection to a name server ended."""

    master_told: Signal[[str | None, str | None]] = field(default_factory=Signal)
    """(address, replication address) of the master, as a name server's answer to a registration
    says; None while it has none (H-7)."""

    master_returned: Signal[[]] = field(default_factory=Signal)
    """The master of this slave is online again: nobody needs to wait here. Emitted by
    `acting_master/` (Z-5)."""

    role_changed: Signal[[]] = field(default_factory=Signal)
    """This broker became a master or a slave; `core.role` says which. Emitted by replication, when
    the change is complete."""

    topic_changed: Signal[[str]] = field(default_factory=Signal)
    """(topic): its configuration was made, changed or deleted."""

    topic_deleted: Signal[[str]] = field(default_factory=Signal)
    """(topic): a tool deleted it; listeners drop what they keep for it."""

    group_changed: Signal[[str]] = field(default_factory=Signal)
    """(group): the configuration of a subscription group was made, changed or deleted."""

    group_deleted: Signal[[str, bool]] = field(default_factory=Signal)
    """(group, with its offsets): a tool deleted it."""
