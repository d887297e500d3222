"""What the pipeline asks name servers, and how often."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pytest

from pocketmq.operation.membership.doors import PROOF, guarded
from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.operation.membership.options import MEMBER_VARIABLE, SecretFile
from pocketmq.pipeline.errors import NameServersAwayError
from pocketmq.pipeline.topics.cluster_client import Access, ClusterClient
from pocketmq.pipeline.topics.settings import ReadSettings
from pocketmq.protocol.bodies.route import (
    MASTER_ID,
    BrokerData,
    ClusterInfo,
    TopicList,
    TopicRouteData,
)
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.dispatch import Dispatcher, Peer, Reply
from pocketmq.protocol.errors import BrokerError
from support.tls import own_pair, tcp_over_tls
from support.wire_pair import served


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


def topics_of_a_name_server(_peer: Peer, request: Command) -> Reply:
    return request.reply(body=encode_body(TopicList(topic_list=["T"]), request.encoding))


@pytest.mark.parametrize("trusts", ["anybody", "its certificate"])
async def test_a_cluster_that_takes_tls_only_is_reached(trusts: str) -> None:
    dispatcher = Dispatcher()
    dispatcher.register(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, topics_of_a_name_server)
    options = {"tls": "true"}
    if trusts == "its certificate":
        options = {"tlsCaFile": str(own_pair().certificate), "tlsServerName": "localhost"}
    async with served(tcp_over_tls(), dispatcher) as (_, address):
        told = {"nameServer": address, "topic": "T", "retries": "0"}
        client = ClusterClient(ReadSettings({**told, **options}).access)
        assert await client.topics() == ["T"]
        await client.remoting.close()


async def test_another_certificate_than_the_trusted_one_is_refused() -> None:
    async with served(tcp_over_tls(), Dispatcher()) as (_, address):
        told = {"nameServer": address, "topic": "T", "retries": "0", "timeoutMs": "2000"}
        other = str(own_pair("another").certificate)
        client = ClusterClient(ReadSettings({**told, "tlsCaFile": other}).access)
        with pytest.raises(NameServersAwayError):
            await client.topics()
        await client.remoting.close()


async def test_a_cluster_for_members_is_read_with_its_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.touch(0o600)
    secret.write_text("a secret of a cluster, of 32 bytes at least")
    members = Members(SecretFile(secret))
    dispatcher = guarded(members, PROOF, None, Budget)
    dispatcher.register(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, topics_of_a_name_server)
    async with served(MemberNetwork(tcp_over_tls(), members), dispatcher) as (_, address):
        told = {"nameServer": address, "topic": "T", "retries": "0", "tls": "true"}
        stranger = ClusterClient(ReadSettings(told).access)
        with pytest.raises(BrokerError, match=MEMBER_VARIABLE):
            await stranger.topics()
        await stranger.remoting.close()

        member = ClusterClient(ReadSettings({**told, "memberSecretFile": str(secret)}).access)
        assert await member.topics() == ["T"]
        await member.remoting.close()

        monkeypatch.setenv(MEMBER_VARIABLE, str(secret))
        found = pickle.loads(pickle.dumps(ReadSettings(told).access))  # as Spark sends it
        monkeypatch.delenv(MEMBER_VARIABLE)  # executors have another environment
        executor = ClusterClient(found)
        assert await executor.topics() == ["T"]
        await executor.remoting.close()


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
