"""Which broker a producer avoids, and for how long (P-31..P-37).

A broker that answers slowly takes a share of all sends with it, because the queues take turns. So a
producer may note how long each try took and leave a slow broker alone for a while, in classes:

    4.9    a try that took at least    550 ms   1 s     2 s     3 s     15 s
           has the broker avoided for  30 s     60 s    120 s   180 s   600 s
    5.x    a try that took at least    550 ms   1.8 s   3 s     5 s     15 s
           has the broker avoided for  2 s      5 s     6 s     10 s    30 s

A try that failed counts as one of 30 s (4.9) or 10 s (5.x), however long it took (P-35). When every
broker is to be avoided, one of the better half is taken: some broker must get the message.

Off by default: then only the broker of the *previous failed try of the same send* is avoided. When
on, a table remembers how long each broker took and until when it is better left alone. 4.9 and 5.x
differ in the tables and in the choice; the `ClientProfile` says which.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pocketmq.client.routes import TopicPublishInfo
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.profile.client import ClientProfile


@dataclass(slots=True)
class FaultItem:
    """One broker in the table."""

    broker_name: str
    latency_ms: float
    available_at: float
    """Monotonic seconds from which it is available again."""
    reachable: bool

    def is_available(self, now: float) -> bool:
        """Whether its time of avoidance is over."""
        return now >= self.available_at


class FaultTable:
    """Broker name -> its item. Knows no brokers that never were reported."""

    def __init__(self, *, only_extends: bool) -> None:
        self.items: dict[str, FaultItem] = {}
        self._only_extends = only_extends
        self._worst = 0

    def update(
        self, broker_name: str, latency_ms: float, avoid_ms: int, now: float, *, reachable: bool
    ) -> None:
        """Take the outcome of one try.

        In 4.9 each update sets the time of recovery anew, so a good send frees the broker at once;
        in 5.x it is only ever put off (P-36).
        """
        item = self.items.get(broker_name)
        available_at = now + avoid_ms / 1000
        if item is None:
            self.items[broker_name] = FaultItem(broker_name, latency_ms, available_at, reachable)
            return
        item.latency_ms = latency_ms
        item.reachable = reachable
        if not self._only_extends or (avoid_ms > 0 and available_at > item.available_at):
            item.available_at = available_at

    def is_available(self, broker_name: str, now: float) -> bool:
        """Whether the broker is available now."""
        item = self.items.get(broker_name)
        return item is None or item.is_available(now)

    def is_reachable(self, broker_name: str) -> bool:
        """Whether its last try got through."""
        item = self.items.get(broker_name)
        return item is None or item.reachable

    def remove(self, broker_name: str) -> None:
        """Forget a broker."""
        self.items.pop(broker_name, None)

    def pick_one_at_least(self, now: float) -> str | None:
        """One of the better half: available first, then faster, then sooner back (P-32)."""
        ranked = sorted(
            self.items.values(),
            key=lambda item: (not item.is_available(now), item.latency_ms, item.available_at),
        )
        if not ranked:
            return None
        half = len(ranked) // 2
        if half == 0:
            return ranked[0].broker_name
        self._worst += 1
        return ranked[self._worst % half].broker_name


class FaultStrategy:
    """Chooses the queue of each try and learns from its outcome.

    Args:
        profile: Tables and manner of choice.
        enabled: RocketMQ's `sendLatencyFaultEnable`; off, nothing is learnt (P-37).
        detector_enabled: A probe restores reachability, so a remoting error may take it away.
    """

    def __init__(
        self, profile: ClientProfile, *, enabled: bool = False, detector_enabled: bool = False
    ) -> None:
        self.enabled = enabled
        self.table = FaultTable(only_extends=profile.fault_only_extends)
        self._profile = profile
        self._detector_enabled = detector_enabled

    def choose(
        self, info: TopicPublishInfo, last_broker: str | None, now: float, *, retry: bool = False
    ) -> MessageQueue:
        """The queue for one try.

        Args:
            info: The topic's queues, of which there is at least one.
            last_broker: Broker of the failed try before this one, of the same send.
            now: Monotonic seconds.
            retry: Whether this is not the first try.
        """
        if not self.enabled:
            return _another_broker(info, last_broker)
        if self._profile.fault_filters:
            return self._filtered(info, last_broker, now, retry=retry)
        return self._from_better_half(info, now)

    def answered(self, broker_name: str, latency_ms: float, now: float) -> None:
        """The broker answered, with whatever send status."""
        if self.enabled:
            self._learn(broker_name, latency_ms, now, isolated=False, reachable=True)

    # behaviour 54
    def remoting_failed(self, broker_name: str, latency_ms: float, now: float) -> None:
        """The broker could not be asked or did not answer."""
        if self.enabled:
            self._learn(
                broker_name,
                latency_ms,
                now,
                isolated=True,
                reachable=not self._detector_enabled,
            )

    def broker_failed(self, broker_name: str, latency_ms: float, now: float) -> None:
        """The broker answered with an error code."""
        if self.enabled:
            self._learn(broker_name, latency_ms, now, isolated=True, reachable=False)

    def client_failed(self, broker_name: str, latency_ms: float, now: float) -> None:
        """The try failed before anything was sent; whether that isolates the broker: P-37."""
        if self.enabled:
            isolated = self._profile.fault_of_client_isolates
            self._learn(broker_name, latency_ms, now, isolated=isolated, reachable=True)

    def reached(self, broker_name: str) -> None:
        """A probe was answered: the broker may be chosen again."""
        item = self.table.items.get(broker_name)
        if item is not None:
            item.reachable = True

    def unreachable_brokers(self) -> Iterable[str]:
        """Brokers that a detector should probe."""
        return [name for name, item in self.table.items.items() if not item.reachable]

    def _learn(
        self, broker_name: str, latency_ms: float, now: float, *, isolated: bool, reachable: bool
    ) -> None:
        avoid_ms = self._profile.not_available_ms(latency_ms, isolated=isolated)
        self.table.update(broker_name, latency_ms, avoid_ms, now, reachable=reachable)

    def _filtered(
        self, info: TopicPublishInfo, last_broker: str | None, now: float, *, retry: bool
    ) -> MessageQueue:
        """P-33: available, then reachable, both not the last broker; then plainly the next."""
        if retry:
            info.randomise()
        table = self.table
        return (
            info.next_accepted(lambda name: name != last_broker and table.is_available(name, now))
            or info.next_accepted(lambda name: name != last_broker and table.is_reachable(name))
            or info.next_queue()
        )

    def _from_better_half(self, info: TopicPublishInfo, now: float) -> MessageQueue:
        """P-32: the next available broker, whichever it was last; else one of the better half."""
        queue = info.next_accepted(lambda name: self.table.is_available(name, now))
        if queue is not None:
            return queue
        broker_name = self.table.pick_one_at_least(now)
        if broker_name is not None:
            write_queues = info.write_queue_nums.get(broker_name, 0)
            if write_queues > 0:
                return MessageQueue(info.topic, broker_name, info.next_index() % write_queues)
            self.table.remove(broker_name)
        return info.next_queue()


# behaviour 53
def _another_broker(info: TopicPublishInfo, last_broker: str | None) -> MessageQueue:
    """P-31: round robin, past the broker that just failed if there is another."""
    if last_broker is None:
        return info.next_queue()
    queue = info.next_accepted(lambda name: name != last_broker)
    return info.next_queue() if queue is None else queue
