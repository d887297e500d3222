"""Routes, and lists of topics, brokers and clusters (N-26 to N-34).

GET_ROUTEINFO_BY_TOPIC (105), GET_BROKER_CLUSTER_INFO (106), GET_BROKER_MEMBER_GROUP (901); lists of
topics: GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206), GET_TOPICS_BY_CLUSTER (224),
GET_SYSTEM_TOPIC_LIST_FROM_NS (304), and of units (311 to 313).
"""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.nameserver.config import NameServerConfig
from pocketmq.nameserver.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from pocketmq.nameserver.route_table import RouteTable
from pocketmq.protocol.bodies.route import (
    BrokerMemberGroup,
    BrokerMemberGroupBody,
    TopicList,
)
from pocketmq.protocol.body import BodyStruct, encode_body, encode_fastjson
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.route import (
    GetBrokerMemberGroupRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
)
from pocketmq.protocol.scalars import TopicSysFlag

VERSION_4_9_4 = 401
"""From this requester version on a route is standard JSON (N-27)."""


class RouteProcessor:
    """Reads the route table.

    Args:
        table: Where routes come from.
        kv: Holds the order configuration.
        is_ready: False in the window after the start in which no routes are given (N-26).
        config: The options as they are now.
    """

    def __init__(
        self,
        table: RouteTable,
        kv: KvConfig,
        *,
        is_ready: Callable[[], bool] = lambda: True,
        config: Callable[[], NameServerConfig] = NameServerConfig,
    ) -> None:
        self._table = table
        self._kv = kv
        self._is_ready = is_ready
        self._config = config

    @handles(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    def route(self, _peer: Peer, request: Command) -> Reply:
        """Queues and brokers of a topic (N-26)."""
        header = request.header(GetRouteInfoRequestHeader)
        # Right after the start a route could lack brokers that have not registered yet (N-26).
        if not self._is_ready():
            return request.reply(code=ResponseCode.SYSTEM_ERROR, remark="name server not ready")
        route = self._table.route(header.topic)
        if route is None:
            return request.reply(
                code=ResponseCode.TOPIC_NOT_EXIST,
                remark=f"No topic route info in name server for the topic: {header.topic}; "
                "create it on a broker first",
            )
        if self._config().order_message_enable:
            # Old clients read the order of a topic from this text; newer ones ignore it (N-26).
            route.order_topic_conf = self._kv.get(ORDER_TOPIC_CONFIG, header.topic)
        # Clients from 4.9.4 on read standard JSON; others may ask for it (N-27).
        reads_standard_json = request.version >= VERSION_4_9_4 or header.accept_standard_json_only
        if request.encoding is Encoding.MSGPACK or reads_standard_json:
            return request.reply(body=encode_body(route, request.encoding))
        # Older clients need integer keys unquoted, as fastjson writes them (N-27).
        return request.reply(body=encode_fastjson(route))

    @handles(RequestCode.GET_BROKER_CLUSTER_INFO)
    def cluster_info(self, _peer: Peer, request: Command) -> Reply:
        """All brokers and clusters (N-34)."""
        return _with_body(request, self._table.cluster_info())

    @handles(RequestCode.GET_BROKER_MEMBER_GROUP)
    def member_group(self, _peer: Peer, request: Command) -> Reply:
        """The addresses behind one broker name, none when it is not known."""
        header = request.header(GetBrokerMemberGroupRequestHeader)
        group = BrokerMemberGroup(cluster=header.cluster_name, broker_name=header.broker_name)
        broker = self._table.broker(header.broker_name)
        if broker is not None:
            # The real ids; unlike a route, this answer never shows another one as id 0 (N-28).
            group.broker_addrs = broker.broker_addrs
        return _with_body(request, BrokerMemberGroupBody(broker_member_group=group))

    @handles(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    def all_topics(self, _peer: Peer, request: Command) -> Reply:
        """Names of all topics."""
        # By option the lists are off: in a large cluster they have megabytes (N-34).
        if not self._config().enable_all_topic_list:
            return _disabled(request)
        return _with_body(request, TopicList(topic_list=self._table.queues.topics()))

    @handles(RequestCode.GET_TOPICS_BY_CLUSTER)
    def topics_by_cluster(self, _peer: Peer, request: Command) -> Reply:
        """Names of the topics of one cluster."""
        header = request.header(GetTopicsByClusterRequestHeader)
        return self._some_topics(request, self._table.topics_of_cluster(header.cluster))

    @handles(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
    def system_topics(self, _peer: Peer, request: Command) -> Reply:
        """Names of clusters and brokers, and one broker to ask for its own (N-34)."""
        return _with_body(request, self._table.system_topics())

    @handles(RequestCode.GET_UNIT_TOPIC_LIST)
    def unit_topics(self, _peer: Peer, request: Command) -> Reply:
        """Topics of a unit."""
        return self._some_topics(request, self._table.queues.topics_where(_is_unit))

    @handles(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)
    def unit_sub_topics(self, _peer: Peer, request: Command) -> Reply:
        """Topics with unit subscriptions."""
        return self._some_topics(request, self._table.queues.topics_where(_is_unit_sub))

    @handles(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
    def unit_sub_ununit_topics(self, _peer: Peer, request: Command) -> Reply:
        """Topics with unit subscriptions that are of no unit themselves."""
        names = self._table.queues.topics_where(
            lambda flag: _is_unit_sub(flag) and not _is_unit(flag)
        )
        return self._some_topics(request, names)

    def _some_topics(self, request: Command, names: list[str]) -> Command:
        if not self._config().enable_topic_list:
            return _disabled(request)
        return _with_body(request, TopicList(topic_list=names))


def _is_unit(sys_flag: int) -> bool:
    return bool(sys_flag & TopicSysFlag.UNIT)


def _is_unit_sub(sys_flag: int) -> bool:
    return bool(sys_flag & TopicSysFlag.UNIT_SUB)


def _with_body(request: Command, body: BodyStruct) -> Command:
    return request.reply(body=encode_body(body, request.encoding))


def _disabled(request: Command) -> Command:
    return request.reply(code=ResponseCode.SYSTEM_ERROR, remark="disable")
