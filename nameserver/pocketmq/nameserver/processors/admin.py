"""What administrators change in the route table (N-30 to N-32).

WIPE_WRITE_PERM_OF_BROKER (205), ADD_WRITE_PERM_OF_BROKER (327), DELETE_TOPIC_IN_NAMESRV (216),
REGISTER_TOPIC_IN_NAMESRV (217).
"""

from __future__ import annotations

import structlog

from pocketmq.nameserver.processors.registration_limits import RegistrationLimits
from pocketmq.nameserver.route_table import RouteTable
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.body import decode_request_body
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.route import (
    AddWritePermRequestHeader,
    AddWritePermResponseHeader,
    DeleteTopicInNamesrvRequestHeader,
    RegisterTopicRequestHeader,
    WipeWritePermRequestHeader,
    WipeWritePermResponseHeader,
)
from pocketmq.protocol.scalars import Perm

log = structlog.get_logger()


class AdminProcessor:
    """Changes the route table by request, in memory: a restart or a registration undoes it."""

    def __init__(self, table: RouteTable, budget: BudgetSource = default_budget) -> None:
        self._limits = RegistrationLimits(table, budget)
        self._table = table

    @handles(RequestCode.WIPE_WRITE_PERM_OF_BROKER)
    def wipe_write_perm(self, _peer: Peer, request: Command) -> Reply:
        """Take the write permission from all queues of a broker (N-31)."""
        name = request.header(WipeWritePermRequestHeader).broker_name
        count = self._table.queues.set_perm(name, keep=~Perm.WRITE, add=0)
        log.info("broker.write_perm_wiped", broker=name, topics=count)
        return request.reply(WipeWritePermResponseHeader(wipe_topic_count=count))

    @handles(RequestCode.ADD_WRITE_PERM_OF_BROKER)
    def add_write_perm(self, _peer: Peer, request: Command) -> Reply:
        """Set all queues of a broker to read and write; as in RocketMQ the inherit bit is lost."""
        name = request.header(AddWritePermRequestHeader).broker_name
        count = self._table.queues.set_perm(name, keep=0, add=Perm.RW)
        log.info("broker.write_perm_added", broker=name, topics=count)
        return request.reply(AddWritePermResponseHeader(add_topic_count=count))

    @handles(RequestCode.DELETE_TOPIC_IN_NAMESRV)
    def delete_topic(self, _peer: Peer, request: Command) -> Reply:
        """Remove a topic's route; brokers that still have the topic may register it anew (N-30)."""
        header = request.header(DeleteTopicInNamesrvRequestHeader)
        self._table.delete_topic(header.topic, header.cluster_name)
        log.info("topic.deleted", topic=header.topic, cluster=header.cluster_name)
        return request.reply()

    @handles(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
    def register_topic(self, _peer: Peer, request: Command) -> Reply:
        """Enter a topic's queues on brokers that are known (N-32); too many are refused."""
        header = request.header(RegisterTopicRequestHeader)
        if request.body_view:
            route = decode_request_body(request, TopicRouteData)
            self._limits.check_route(header.topic, route.queue_datas)
            self._table.add_topic(header.topic, route.queue_datas)
        return request.reply()
