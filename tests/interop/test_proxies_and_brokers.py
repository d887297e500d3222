"""Official SDKs do the same with our proxy and RocketMQ's, before our broker and RocketMQ's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pocketmq.client import Admin
from pocketmq.cluster.local import local_cluster
from pocketmq.operation.tls.options import TlsOptions
from pocketmq.operation.tls.role_tls import RoleTls
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.proxy.assembly.proxy import Proxy
from pocketmq.proxy.config import ProxyConfig
from pocketmq.runtime.clock import SystemClock
from support.eventually import PATIENCE_MS
from support.real_proxy import real_proxy
from support.real_rocketmq import real_rocketmq
from support.sdk_programs import run
from support.sdk_rows import GO, JAVA, NEEDS, NODE, RUST, Sdk, prepare
from support.sdk_world import (
    ASKING_SOON,
    CHOSEN,
    PRODUCED,
    PRODUCED_TOLD,
    RETRIED_SOON,
    SIMPLE,
    SIMPLE_TOLD,
    printed,
)

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1_800),  # a first run downloads RocketMQ
]

ALL = (GO, NODE, JAVA, RUST)

PUSHED = """
listener = Listener(3, lambda message, attempt: attempt > 1 or message.body == b"good")
consumer = push("retried", "retries", listener)
send("retries", "bad", "good")
assert listener.done.wait(60)
consumer.shutdown()

bodies = [str(number) for number in range(10)]
ordered = Listener(10)
send("payments", *bodies, group="customer-17")
consumer = push("in-order", "payments", ordered)
assert ordered.done.wait(60)
consumer.shutdown()
print([sorted(listener.seen), ordered.seen == bodies])
"""

UNTIL_SETTINGS = """
receive_some = some
def some(consumer, count):
    while True:
        try:
            return receive_some(consumer, count)
        except Exception as exc:
            if '"settings" is null' not in str(exc):
                raise
            time.sleep(0.1)
"""
"""RocketMQ's proxy fails a receive that comes before its client's settings, as SDKs' first one does
(G-25); ours answers it."""


@asynccontextmanager
async def brokers(kind: str, folder: Path) -> AsyncIterator[str]:
    """A nameserver with a broker; the address of the first."""
    if kind == "ours":
        ours = ("--recall-message-enable", *ASKING_SOON)
        async with local_cluster(broker_arguments=ours) as cluster:
            yield cluster.namesrv_addr
    else:
        settings = {
            "timerWheelEnable": "true",
            "enablePropertyFilter": "true",
            "recallMessageEnable": "true",
            # `transactionTimeOut` stays at 6 s: only up to 3 s after its end is a transaction noted
            # as ended, and until then this broker asks for it.
            "transactionCheckInterval": "1000",
        }
        with real_rocketmq(folder / "store", settings=settings) as real:
            yield real.namesrv_addr


@asynccontextmanager
async def proxy_before(kind: str, nameserver: str, folder: Path) -> AsyncIterator[str]:
    """A proxy; what SDKs connect to."""
    if kind == "ours":
        config = ProxyConfig(nameservers=(nameserver,), grpc_port=0)
        # Go and Java ask for TLS.
        tls = RoleTls(TlsOptions()).server
        async with Proxy(config, SystemClock(), TcpNetwork(), tls=tls) as proxy:
            yield proxy.endpoints
    else:
        with real_proxy(folder, nameserver) as (port, _server):
            yield f"127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("proxy", "broker"),
    [
        ("ours", "real"),
        # `tests/proxy/test_python_sdk.py` does more with the first of these with every change, and
        # a recipe's test sends through RocketMQ's proxy.
        pytest.param("ours", "ours", marks=pytest.mark.nightly),
        pytest.param("real", "ours", marks=pytest.mark.nightly),
        pytest.param("real", "real", marks=pytest.mark.nightly),
    ],
)
async def test_the_python_sdk_does_the_same_with_each_proxy_before_each_broker(
    proxy: str, broker: str, tmp_path: Path
) -> None:
    async with brokers(broker, tmp_path) as nameserver:
        async with Admin(
            nameservers=nameserver, encoding="json", api_timeout_ms=PATIENCE_MS
        ) as admin:
            for topic in ("orders", "retries"):
                await admin.create_topic(topic, message_type="NORMAL")
            await admin.create_topic("payments", message_type="FIFO")
            await admin.create_topic("later", message_type="DELAY")
            await admin.create_topic("deals", message_type="TRANSACTION")
            for group in (
                SubscriptionGroupConfig(group_name="in-order", consume_message_orderly=True),
                SubscriptionGroupConfig(group_name="retried", group_retry_policy=RETRIED_SOON),
            ):
                await admin.create_group(group)
        async with proxy_before(proxy, nameserver, tmp_path) as where:
            early = UNTIL_SETTINGS if proxy == "real" else ""
            assert await printed(where, early + SIMPLE) == SIMPLE_TOLD
            assert await printed(where, early + CHOSEN) == ["one", "two"]
            assert await printed(where, early + PRODUCED) == PRODUCED_TOLD
            assert await printed(where, PUSHED) == [["bad", "bad", "good"], True]


@pytest.mark.nightly
@pytest.mark.parametrize("sdk", [pytest.param(e, id=e.name, marks=NEEDS[e.name]) for e in ALL])
@pytest.mark.parametrize(
    # `tests/proxy/test_other_sdks.py` has the pair that is left.
    ("proxy", "broker"),
    [("ours", "real"), ("real", "ours"), ("real", "real")],
)
async def test_an_sdk_does_every_row_with_each_proxy_before_each_broker(
    proxy: str, broker: str, sdk: Sdk, tmp_path: Path
) -> None:
    words = await asyncio.to_thread(sdk.command, tmp_path)
    async with brokers(broker, tmp_path) as nameserver:
        async with Admin(
            nameservers=nameserver, encoding="json", api_timeout_ms=PATIENCE_MS
        ) as admin:
            await prepare(admin)
        async with proxy_before(proxy, nameserver, tmp_path) as where:
            said = await asyncio.to_thread(run, *words, where)
            assert said.splitlines() == sdk.told
