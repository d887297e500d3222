"""Refuses registrations that hold too much, or one broker more than is kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pocketmq.nameserver.route_table import RouteTable
from pocketmq.protocol.bodies.route import QueueData
from pocketmq.protocol.bodies.topics import RegisterBrokerBody, TopicConfig
from pocketmq.protocol.budget import BudgetSource
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
        self._check_names(header, body, topics)
        self._check_queues(header.broker_name, topics)
        if not table.is_known(header.cluster_name, header.broker_name, header.broker_addr):
            budget.check(
                "brokers",
                table.broker_count + 1,
                "brokers",
                advice="unregister those that are gone, or raise it",
            )
        self._check_routes(header.broker_name, topics)

    def check_route(self, topic: str, queues: Iterable[QueueData]) -> None:
        """The same for a topic that an administrator enters (N-32)."""
        self._budget().check("name_chars", len(topic), "characters of the topic's name")
        for each in queues:
            most = max(each.read_queue_nums, each.write_queue_nums)
            self._budget().check("queues_per_topic", most, f"queues of topic {topic[:80]!r}")
            self._check_routes(each.broker_name, (topic,))

    def _check_names(
        self,
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
        longest = max((len(name) for name in (*names, *topics)), default=0)
        self._budget().check(
            "name_chars", longest, "characters of a name or address of the registration"
        )

    def _check_queues(self, broker_name: str, topics: Mapping[str, TopicConfig]) -> None:
        most, topic = max(
            ((max(c.read_queue_nums, c.write_queue_nums), name) for name, c in topics.items()),
            default=(0, ""),
        )
        self._budget().check(
            "queues_per_topic", most, f"queues of topic {topic[:80]!r} of broker {broker_name[:80]}"
        )

    def _check_routes(self, broker_name: str, topics: Iterable[str]) -> None:
        table, routes = self._table, self._table.queues.count
        new = sum(not table.queues.has(topic, broker_name) for topic in topics)
        self._budget().check("routes", routes + new if new else 0, "topics of all brokers")
