"""Clients of RocketMQ 5's SDKs, which brokers do not know: they are drawn at their proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest

from pocketmq.cluster.watch_page.page import exported_page
from pocketmq.operation.events.groups import SdkJoined, SdkLeft
from pocketmq.operation.events.recording import encode_recording, header_of
from pocketmq.operation.events.roles import RoleStarted, RoleStopped
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType
from pocketmq.proxy.routes.endpoints import scheme_of
from pocketmq.runtime.addresses import split_address
from pocketmq.testing import Cluster, start_cluster
from support.browser import chromium, seen
from support.lesson import BEGAN_MS, BROKERS, SERVERS, Lesson
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
        cluster.sync.kill("proxy-1")
        page.until(f"{CLIENTS}['{SHOP}'].state === 'silent'")
        assert page.page.evaluate(f"{CLIENTS}['{BILLING}'].state") == "left"


def test_who_was_at_a_killed_proxy_is_silent_until_it_joins_again(tmp_path: Path) -> None:
    run = Lesson()
    proxies = ("proxy-1", "proxy-2")
    for name in proxies:
        run.tell(RoleStarted, 0.0, name, role=name, kind="proxy")

    def joins(at: float, client_id: str, proxy: str) -> None:
        run.tell(
            SdkJoined, at, proxy, client_id=client_id, proxy=proxy, kind="producer", sdk="GO 5.1.4"
        )

    for client_id, proxy in ((SHOP, "proxy-1"), (BILLING, "proxy-1"), ("desk@8", "proxy-2")):
        joins(1.0, client_id, proxy)
    run.tell(SdkLeft, 2.0, "proxy-1", client_id=BILLING, proxy="proxy-1", how="unregistered")
    run.tell(RoleStopped, 3.0, "proxy-1", role="proxy-1", how="frozen")  # its connections stay up
    run.tell(RoleStopped, 4.0, "proxy-1", role="proxy-1", how="ended")
    joins(5.0, SHOP, "proxy-2")
    run.tell(RoleStarted, 6.0, "proxy-1", role="proxy-1", kind="proxy")

    path = tmp_path / "killed.html"
    header = header_of("killed", BEGAN_MS, [*SERVERS, *BROKERS, *proxies])
    path.write_text(exported_page(encode_recording(header, run.events), "killed"))
    with chromium() as browser, seen(browser, offline=True) as page:
        page.open(path.as_uri())
        found = {
            at: page.page.evaluate(
                f"""(ids) => {{
                  const {{ timeline }} = pocketmqWatch;
                  const {{ clients }} = timeline.at(timeline.began_ms + {at} * 1000);
                  return ids.map((id) => [clients[id].state, clients[id].proxy,
                    Math.round((clients[id].since_ms - {BEGAN_MS}) / 1000)]);
                }}""",
                [SHOP, BILLING, "desk@8"],
            )
            for at in (3.5, 4.5, 6.5)
        }
    shop, left, other = (
        ["running", "proxy-1", 1],
        ["left", "proxy-1", 2],
        ["running", "proxy-2", 1],
    )
    assert found == {
        3.5: [shop, left, other],
        4.5: [["silent", "proxy-1", 4], left, other],
        6.5: [["running", "proxy-2", 5], left, other],
    }
