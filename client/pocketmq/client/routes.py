"""Route table: topic -> queues, broker name -> addresses (P-10..P-14, C-38).

A route says which brokers have queues of a topic, and at which addresses. From it follow two lists
of queues, which need not be the same. Topic T with two queues on each of three brokers:

    broker   permission   addresses         to send to (P-12)   to consume from (P-13)
    a        RW           master, slave 1   a0 a1               a0 a1
    b        R            master            -                   b0 b1
    c        RW           slave 1           -                   c0 c1

b takes no more messages, and is emptied before it is taken away. The master of c is gone: its slave
is read from, and nobody sends to it.

No I/O: the client instance asks the name server and passes the answers in. Producers and
consumers of one client instance share a table.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from pocketmq.protocol.allocation.strategy import sorted_queues
from pocketmq.protocol.bodies.route import MASTER_ID, BrokerData, QueueData, TopicRouteData
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.scalars import Perm

_DataT = TypeVar("_DataT", QueueData, BrokerData)


class TopicPublishInfo:
    """The queues that a topic's messages may go to, and whose turn it is (P-12, P-30)."""

    __slots__ = ("_brokers", "_index", "ordered", "queues", "topic", "write_queue_nums")

    def __init__(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        *,
        ordered: bool = False,
        write_queue_nums: Mapping[str, int] | None = None,
        first_index: int | None = None,
    ) -> None:
        self.topic = topic
        self.queues = tuple(queues)
        """In the order of P-12, which selectors rely on."""
        self.ordered = ordered
        """Whether the queues come from an order configuration."""
        self.write_queue_nums = dict(write_queue_nums or {})
        """Broker name -> its write queues, for the better half of the fault table (P-32)."""
        self._brokers = frozenset(queue.broker_name for queue in self.queues)
        self._index = random.getrandbits(31) if first_index is None else first_index

    # behaviour 52
    def next_index(self) -> int:
        """One step of the round robin; the first value is random so that clients spread (P-30)."""
        self._index = (self._index + 1) & 0x7FFFFFFF
        return self._index

    def randomise(self) -> None:
        """Begin the round robin anywhere (P-33, before a retry)."""
        self._index = random.getrandbits(31)

    def next_queue(self) -> MessageQueue:
        """The next queue in turn."""
        return self.queues[self.next_index() % len(self.queues)]

    def next_accepted(self, accepts: Callable[[str], bool]) -> MessageQueue | None:
        """The next queue of a broker that `accepts` takes, within one round; None if it takes none.

        O(1) while the next broker is taken; O(brokers), and not queues, while none is.
        """
        queue = self.next_queue()
        if accepts(queue.broker_name):
            return queue
        accepted = {name for name in self._brokers if accepts(name)}
        if not accepted:
            self._index = (self._index - 1) & 0x7FFFFFFF  # where a whole round ends, too
            return None
        while queue.broker_name not in accepted:
            queue = self.next_queue()
        return queue


class BrokerAddress(NamedTuple):
    """An address of a broker name."""

    address: str
    broker_id: int


# behaviour 41
def publish_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Queues to send to, broker by broker (P-12).

    An order configuration `name:num;name:num` names them exactly. Otherwise each broker needs the
    W bit and a master address.
    """
    if route.order_topic_conf:
        ordered = []
        for entry in route.order_topic_conf.split(";"):
            broker_name, _, count = entry.partition(":")
            if broker_name and count.isdecimal():
                ordered += [MessageQueue(topic, broker_name, i) for i in range(int(count))]
        return ordered
    with_master = {
        data.broker_name for data in route.broker_datas if data.master_address() is not None
    }
    queues = []
    for data in sorted(route.queue_datas, key=lambda each: each.broker_name):
        if Perm.is_writable(data.perm) and data.broker_name in with_master:
            queues += [
                MessageQueue(topic, data.broker_name, i) for i in range(data.write_queue_nums)
            ]
    return queues


def subscribe_queues(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    """Queues to consume from: R bit, 0..readQueueNums-1; a master is not needed (P-13).

    Sorted as the rebalance wants them, and each once.
    """
    return sorted_queues(
        {
            MessageQueue(topic, data.broker_name, i)
            for data in route.queue_datas
            if Perm.is_readable(data.perm)
            for i in range(data.read_queue_nums)
        }
    )


def clipped_to_default(route: TopicRouteData, default_queue_nums: int) -> TopicRouteData:
    """TBW102's route as that of a topic which does not exist yet (P-14)."""
    queue_datas = []
    for data in route.queue_datas:
        nums = min(default_queue_nums, data.read_queue_nums)
        queue_datas.append(
            msgspec.structs.replace(data, read_queue_nums=nums, write_queue_nums=nums)
        )
    return msgspec.structs.replace(route, queue_datas=queue_datas)


def same_route(a: TopicRouteData, b: TopicRouteData) -> bool:
    """Whether two answers say the same, in whatever order (P-11)."""
    return (
        a.order_topic_conf == b.order_topic_conf
        and _sorted_by_name(a.queue_datas) == _sorted_by_name(b.queue_datas)
        and _sorted_by_name(a.broker_datas) == _sorted_by_name(b.broker_datas)
    )


class RouteTable:
    """What one client knows of topics and brokers."""

    def __init__(self) -> None:
        self.routes: dict[str, TopicRouteData] = {}
        self.publish: dict[str, TopicPublishInfo] = {}
        """Topics that somebody produces to; filled on demand by `publish_info`."""
        self.subscribe: dict[str, list[MessageQueue]] = {}
        """Readable queues of each known topic."""
        self.brokers: dict[str, dict[int, str]] = {}
        """Broker name -> broker id -> address."""
        self.changes = 0
        """Another number after each change of `brokers`."""

    def apply(self, topic: str, route: TopicRouteData) -> bool:
        """Take a name server's answer; whether anything changed (P-11)."""
        old = self.routes.get(topic)
        if old is not None and same_route(old, route):
            return False
        self.routes[topic] = route
        for data in route.broker_datas:
            if self.brokers.get(data.broker_name) != data.broker_addrs:
                self.brokers[data.broker_name] = dict(data.broker_addrs)
                self.changes += 1
        self.publish.pop(topic, None)
        self.subscribe[topic] = subscribe_queues(topic, route)
        return True

    def publish_info(self, topic: str) -> TopicPublishInfo | None:
        """The topic's queues to send to; None while no route of it is known."""
        info = self.publish.get(topic)
        if info is None:
            route = self.routes.get(topic)
            if route is None:
                return None
            info = self.publish[topic] = TopicPublishInfo(
                topic,
                publish_queues(topic, route),
                ordered=bool(route.order_topic_conf),
                write_queue_nums={
                    data.broker_name: data.write_queue_nums for data in route.queue_datas
                },
            )
        return info

    # -- brokers --------------------------------------------------------------------------------

    def master(self, broker_name: str) -> str | None:
        """Address of a broker name's master."""
        addresses = self.brokers.get(broker_name)
        return None if addresses is None else addresses.get(MASTER_ID)

    def may_fail_over(self, broker_name: str) -> bool:
        """Whether another broker of this name may have become its master (W-12)."""
        addresses = self.brokers.get(broker_name, {})
        return len(addresses) > 1 or (len(addresses) == 1 and MASTER_ID not in addresses)

    def broker(
        self, broker_name: str, broker_id: int = MASTER_ID, *, only_this: bool = False
    ) -> BrokerAddress | None:
        """An address to read from (C-38): this id, for a slave the next id, else any.

        Args:
            broker_name: The group of brokers.
            broker_id: The wanted one.
            only_this: Do not settle for any other.
        """
        addresses = self.brokers.get(broker_name)
        if not addresses:
            return None
        candidates = [broker_id]
        if broker_id != MASTER_ID:
            candidates.append(broker_id + 1)
        if not only_this:
            candidates.append(min(addresses))
        for candidate in candidates:
            if candidate in addresses:
                return BrokerAddress(addresses[candidate], candidate)
        return None

    def readable_brokers(self, topic: str) -> list[str]:
        """Names of the brokers that have queues of a topic to consume from, sorted. O(brokers)."""
        route = self.routes.get(topic)
        return sorted(
            {
                data.broker_name
                for data in ([] if route is None else route.queue_datas)
                if Perm.is_readable(data.perm) and data.read_queue_nums > 0
            }
        )

    # behaviour 6
    def broker_of_topic(self, topic: str, choose: Callable[[Sequence[str]], str]) -> str | None:
        """Address of a randomly chosen broker name of the topic, for the consumer list (C-24).

        Its master, or any slave when it has none.

        Args:
            topic: Whose route to look at.
            choose: Picks one of several, such as `random.choice`.
        """
        route = self.routes.get(topic)
        if route is None or not route.broker_datas:
            return None
        names = {data.broker_name: data for data in route.broker_datas}
        addresses = names[choose(sorted(names))].broker_addrs
        if MASTER_ID in addresses:
            return addresses[MASTER_ID]
        return choose([addresses[i] for i in sorted(addresses)]) if addresses else None

    def addresses(self, *, masters_only: bool = False) -> list[tuple[str, int, str]]:
        """Every known (broker name, broker id, address), in a stable order."""
        return [
            (name, broker_id, address)
            for name, addresses in sorted(self.brokers.items())
            for broker_id, address in sorted(addresses.items())
            if broker_id == MASTER_ID or not masters_only
        ]

    def clean_offline_brokers(self) -> list[str]:
        """Forget, and return, addresses that no cached route names any more (P-10)."""
        known = {
            address
            for route in self.routes.values()
            for data in route.broker_datas
            for address in data.broker_addrs.values()
        }
        gone = []
        for name, addresses in list(self.brokers.items()):
            for broker_id, address in list(addresses.items()):
                if address not in known:
                    gone.append(address)
                    self.changes += 1
                    del addresses[broker_id]
            if not addresses:
                del self.brokers[name]
        return gone


def _sorted_by_name(datas: Iterable[_DataT]) -> list[_DataT]:
    return sorted(datas, key=lambda data: data.broker_name)
