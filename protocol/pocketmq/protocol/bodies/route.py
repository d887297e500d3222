"""Routes and what a nameserver tells about topics and clusters (E-61)."""

from __future__ import annotations

from typing import Final

from pocketmq.protocol.body import BodyStruct, always
from pocketmq.protocol.scalars import Int32

MASTER_ID: Final = 0
"""Broker id of the master of a broker name; slaves have others."""


class QueueData(BodyStruct, kw_only=True, omit_defaults=False):
    """The queues of one topic on one broker name (N-4)."""

    broker_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32 = 0


class BrokerData(BodyStruct, kw_only=True):
    """The addresses behind one broker name (N-5); id 0 is the master."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str] = always(dict)
    enable_acting_master: bool = always(bool)
    zone_name: str | None = None

    def master_address(self) -> str | None:
        """Address of id 0, or None while the group has no master."""
        return self.broker_addrs.get(0)


class TopicRouteData(BodyStruct, kw_only=True):
    """Where a topic's queues are: GET_ROUTEINFO_BY_TOPIC (105)."""

    queue_datas: list[QueueData] = always(list)
    broker_datas: list[BrokerData] = always(list)
    filter_server_table: dict[str, list[str]] = always(dict)
    """Older Java clients fail without it."""

    order_topic_conf: str | None = None


class ClusterInfo(BodyStruct, kw_only=True, omit_defaults=False):
    """All brokers and clusters of a nameserver: GET_BROKER_CLUSTER_INFO (106) (N-34)."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(BodyStruct, kw_only=True):
    """Topic names: answer to the requests whose names contain TOPIC_LIST or TOPICS."""

    topic_list: list[str] = always(list)
    broker_addr: str | None = None


class KVTable(BodyStruct, kw_only=True, omit_defaults=False):
    """Text by text: a KV namespace, order configuration, runtime information."""

    table: dict[str, str] = {}


class BrokerMemberGroup(BodyStruct, kw_only=True, omit_defaults=False):
    """Who stands behind one broker name."""

    cluster: str
    broker_name: str
    broker_addrs: dict[int, str] = {}


class BrokerMemberGroupBody(BodyStruct, kw_only=True, omit_defaults=False):
    """Answer to GET_BROKER_MEMBER_GROUP (901)."""

    broker_member_group: BrokerMemberGroup
