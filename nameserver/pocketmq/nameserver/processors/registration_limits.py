"""Refuses registrations that hold too much, or one broker more than is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pocketmq.nameserver.route_table import RouteTable
from pocketmq.protocol.bodies.route import QueueData
from pocketmq.protocol.bodies.topics import RegisterBrokerBody, TopicConfig
from pocketmq.protocol.budget import Budget, BudgetSource
from pocketmq.protocol.headers.route import RegisterBrokerRequestHeader


class RegistrationLimits:
    """Limits on what brokers, and all brokers together, may enter into the route table.

    Args:
        table: what is known already.
        budget: the limits.
    """

    def __init__(self, table: RouteTable, budget: BudgetSource) -> None:
        self._table = table
        self._budget = budget

    def check(self, header: RegisterBrokerRequestHeader, body: RegisterBrokerBody) -> None:
        """Pass a registration that others can bear: clients make an object of each queue.

        Raises:
            OverBudgetError: it is over a limit; nothing of it has been entered.
        """
        budget, table = self._budget(), self._table
        topics = body.topic_config_serialize_wrapper.topic_config_table
        budget.check("topics_per_registration", len(topics), "topics of the registration")
        self._check_names(budget, header, body, topics)
        self._check_queues(budget, header.broker_name, topics)
        # Only a new broker counts against the limit.
        if not table.is_known(header.cluster_name, header.broker_name, header.broker_addr):
            budget.check(
                "brokers",
                table.broker_count + 1,
                "brokers",
                advice="unregister those that are gone, or raise it",
            )
        self._check_routes(budget, header.broker_name, topics)

    def check_route(self, topic: str, queues: Iterable[QueueData]) -> None:
        """The same for a topic that an administrator enters (N-32)."""
        budget = self._budget()
        budget.check("name_chars", len(topic), "characters of the topic's name")
        for each in queues:
            most = max(each.read_queue_nums, each.write_queue_nums)
            budget.check("queues_per_topic", most, f"queues of topic {topic[:80]!r}")
            self._check_routes(budget, each.broker_name, (topic,))

    def _check_names(
        self,
        budget: Budget,
        header: RegisterBrokerRequestHeader,
        body: RegisterBrokerBody,
        topics: Mapping[str, TopicConfig],
    ) -> None:
        names = (
            header.broker_name,
            header.broker_addr,
            header.cluster_name,
            header.ha_server_addr or "",
            header.zone_name or "",
            "".join(body.filter_server_list or ()),
        )
        longest = max(*map(len, names), max(map(len, topics), default=0))
        budget.check("name_chars", longest, "characters of a name or address of the registration")

    def _check_queues(
        self, budget: Budget, broker_name: str, topics: Mapping[str, TopicConfig]
    ) -> None:
        limit = budget.queues_per_topic
        for topic, config in topics.items():
            # Compared here to save calls: a registration may have ten thousand topics.
            if config.read_queue_nums > limit or config.write_queue_nums > limit:
                budget.check(
                    "queues_per_topic",
                    max(config.read_queue_nums, config.write_queue_nums),
                    f"queues of topic {topic[:80]!r} of broker {broker_name[:80]}",
                )

    def _check_routes(self, budget: Budget, broker_name: str, topics: Iterable[str]) -> None:
        new = self._table.queues.lacking(topics, broker_name)
        if new:
            budget.check("routes", self._table.queues.count + new, "topics of all brokers")
