"""Which brokers have how many queues of which topic, and what one may do with them (N-4). Pure.

    T -> {broker-a: 4 read queues, 4 write queues, perm 6, broker-b: ...}

A topic without queues is none. `QueueData` is replaced and never modified, so whoever was handed
one keeps what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Set

from msgspec.structs import replace

from pocketmq.protocol.bodies.route import QueueData
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.scalars import Perm


class TopicQueues:
    """The queues of all topics, by broker name."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._of_brokers: dict[str, dict[str, dict[str, QueueData]]] = {}
        """Broker name -> its topics, in order of arrival, each with the object in `_topics`."""
        self._count = 0

    # -- reading ------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Pairs of a topic and a broker. O(1)."""
        return self._count

    def has(self, topic: str, broker_name: str) -> bool:
        """Whether a broker's queues of a topic are known."""
        return broker_name in self._topics.get(topic, ())

    def lacking(self, topics: Iterable[str], broker_name: str) -> int:
        """Of how many of these topics a broker's queues are not known."""
        known = self._topics
        return sum(broker_name not in known.get(topic, ()) for topic in topics)

    def of(self, topic: str) -> Mapping[str, QueueData]:
        """Broker name -> its queues of the topic."""
        return self._topics.get(topic, {})

    def topics(self) -> list[str]:
        """Names of all topics."""
        return list(self._topics)

    def topics_of(self, broker_names: Set[str]) -> list[str]:
        """Topics of which one of these brokers has queues."""
        return [
            topic for topic, queues in self._topics.items() if not broker_names.isdisjoint(queues)
        ]

    def topics_where(self, wanted: Callable[[int], bool]) -> list[str]:
        """Topics whose `topicSysFlag`, as their first broker told it, is wanted."""
        return [
            topic
            for topic, queues in self._topics.items()
            if queues and wanted(next(iter(queues.values())).topic_sys_flag)
        ]

    # -- changing -----------------------------------------------------------------------------

    def enter(
        self,
        broker_name: str,
        topics: Mapping[str, TopicConfig],
        *,
        all_of_them: bool,
        read_only: bool,
    ) -> int:
        """Take a broker's queues as it registered them; returns how many topics. O(topics).

        Args:
            broker_name: Whose they are.
            topics: What it told.
            all_of_them: Else only those of which it had no queues.
            read_only: Without write permission.
        """
        entered = 0
        for topic, config in topics.items():
            queues = self._topics.get(topic)
            # Enter only topics that are new to this broker, unless the whole registration changed
            # (N-15).
            if all_of_them or queues is None or broker_name not in queues:
                queue = QueueData(
                    broker_name=broker_name,
                    read_queue_nums=config.read_queue_nums,
                    write_queue_nums=config.write_queue_nums,
                    # A slave that may act as master has read-only queues (N-20).
                    perm=config.perm & ~Perm.WRITE if read_only else config.perm,
                    topic_sys_flag=config.topic_sys_flag,
                )
                self.put(topic, queue)
                entered += 1
        return entered

    def put(self, topic: str, queue: QueueData) -> None:
        """Enter a broker's queues of one topic."""
        name = queue.broker_name
        queues = self._topics.setdefault(topic, {})
        if name not in queues:
            self._count += 1
            self._of_brokers.setdefault(name, {})[topic] = queues
        queues[name] = queue

    def forget(self, broker_name: str, keep: Container[str] = ()) -> None:
        """Drop the broker's queues of all topics that are not in `keep`. O(topics of it)."""
        for topic in list(self._of_brokers.get(broker_name, ())):
            if topic not in keep:
                self._drop(topic, broker_name)

    def delete(self, topic: str, broker_names: Iterable[str] | None = None) -> None:
        """Drop a topic's queues: all, or those of these brokers."""
        queues = self._topics.get(topic, {})
        for name in list(queues) if broker_names is None else broker_names:
            if name in queues:
                self._drop(topic, name)

    def set_perm(self, broker_name: str, *, keep: int, add: int) -> int:
        """Change the permission of all queues of a broker; returns how many topics (N-31).

        Args:
            broker_name: Its name.
            keep: Bits that stay as they are; all others are taken away.
            add: Bits that are set then.
        """
        # Bits and no function, and no look-up by topic: one request may be for 200,000 queues, and
        # holds the loop.
        topics = self._of_brokers.get(broker_name, {})
        for queues in topics.values():
            queue = queues[broker_name]
            # Replaced and not changed, so that routes already handed out stay as they are.
            queues[broker_name] = replace(queue, perm=queue.perm & keep | add)
        return len(topics)

    def _drop(self, topic: str, broker_name: str) -> None:
        """Drop queues that are known; what is left without any goes as well."""
        queues, topics = self._topics[topic], self._of_brokers[broker_name]
        self._count -= 1
        del queues[broker_name], topics[topic]
        if not queues:
            del self._topics[topic]
        if not topics:
            del self._of_brokers[broker_name]
