"""Clients of RocketMQ 5's SDKs, which brokers do not know: they are drawn at their proxy."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import grpc.aio
import pytest

from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType
from pocketmq.proxy.routes.endpoints import scheme_of
from pocketmq.runtime.addresses import split_address
from pocketmq.testing import Cluster, start_cluster
from support.browser import chromium, seen
from support.proxy_rig import Sdk

pytestmark = pytest.mark.browser

CLIENTS = "pocketmqWatch.timeline.newest.clients"
SHOP, BILLING = "desk@7@0@shop", "desk@7@1@billing"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with start_cluster(brokers=2, proxy=True) as started:
        started.sync.create_topic("orders")
        yield started


def sdk(cluster: Cluster, client_id: str) -> Sdk:
    """A client that says it is Go's; made in the cluster's loop."""
    host, port = split_address(cluster.endpoints)
    endpoints = pb.Endpoints(scheme=scheme_of(host), addresses=[pb.Address(host=host, port=port)])
    channel = grpc.aio.insecure_channel(cluster.endpoints)
    said = {"x-mq-language": "GO", "x-mq-client-version": "5.1.4"}
    return Sdk(channel, endpoints, client_id, said)


def test_sdks_come_and_go_at_their_proxy(cluster: Cluster) -> None:
    async def publishes() -> Sdk:
        made = sdk(cluster, SHOP)
        await made.publish("orders")
        return made

    async def subscribes() -> Sdk:
        made = sdk(cluster, BILLING)
        await made.subscribe("billing", "orders", kind=ClientType.PUSH_CONSUMER)
        return made

    async def ends(*all_of_them: Sdk) -> None:
        await all_of_them[-1].call("NotifyClientTermination", group=pb.Resource(name="billing"))
        for each in all_of_them:
            await each.channel.close()

    shop = cluster.thread.result(publishes())
    with chromium() as browser, seen(browser) as page:
        page.open(f"{cluster.control_url}/watch")
        page.until(f"{CLIENTS}['{SHOP}']?.sdk === 'GO 5.1.4'")  # it was there before
        billing = cluster.thread.result(subscribes())
        page.until(f"{CLIENTS}['{BILLING}']?.group === 'billing'")
        for one, other in (
            (SHOP, "proxy-1"),
            (BILLING, "proxy-1"),
            ("proxy-1", "broker-a"),
            ("proxy-1", "broker-b"),
        ):
            page.until(f"document.querySelector('path[data-link=\"{one} {other}\"]') !== null")
        for there in (SHOP, BILLING):  # not to a broker
            assert page.page.locator(f"path[data-link*='{there}']").count() == 1
        page.shows("(GO 5.1.4) is connected to proxy-1")
        proxy = page.page.locator("[data-key='thing proxy-1']")
        assert "gRPC proxy proxy-1" in str(proxy.get_attribute("aria-label"))
        cluster.thread.result(ends(shop, billing))
        page.until(f"{CLIENTS}['{BILLING}'].state === 'left'")
