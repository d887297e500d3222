"""What the pipeline asks name servers, and how often."""

from __future__ import annotations

import asyncio

from pocketmq.pipeline.topics.cluster_client import Access, ClusterClient
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.protocol.bodies.route import MASTER_ID, BrokerData, ClusterInfo, TopicRouteData
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.command import Command, Encoding


class ActingApi:
    """A name server that shows slaves as masters, which only the cluster's list tells apart."""

    def __init__(self) -> None:
        self.master = BrokerData(cluster="c", broker_name="a", broker_addrs={MASTER_ID: "a:1"})
        self.asked_for_cluster = 0

    async def route(self, _topic: str) -> TopicRouteData:
        acting = BrokerData(
            cluster="c", broker_name="a", broker_addrs={MASTER_ID: "a:2"}, enable_acting_master=True
        )
        return TopicRouteData(broker_datas=[acting])

    async def ask_name_server(self, _header: object) -> Command:
        self.asked_for_cluster += 1
        info = ClusterInfo(broker_addr_table={self.master.broker_name: self.master})
        return Command(0, body=encode_body(info, Encoding.MSGPACK))


def access() -> Access:
    return ReadSettings({"nameServer": "127.0.0.1:1", "topic": "T"}).access


async def test_routes_of_many_topics_take_one_question_for_the_cluster() -> None:
    client, api = ClusterClient(access()), ActingApi()
    client.api = api  # type: ignore[assignment]
    routes = await asyncio.gather(*(client.route_now(f"T{number}") for number in range(100)))
    assert len(routes) == 100
    assert api.asked_for_cluster == 1
    api.master.broker_addrs.clear()  # its master goes away: what was answered before is not kept
    route = await client.route_now("T")
    assert route is not None
    assert route.broker_datas[0].master_address() is None
