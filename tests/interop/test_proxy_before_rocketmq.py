"""Our proxy in front of a real RocketMQ: an official SDK does with it what it does with ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.client import Admin
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.proxy.assembly.proxy import Proxy
from pocketmq.proxy.config import ProxyConfig
from pocketmq.runtime.clock import SystemClock
from support.real_rocketmq import real_rocketmq
from support.sdk_world import RETRIED_SOON, SIMPLE, SIMPLE_TOLD, printed

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

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


async def test_the_python_sdk_consumes_from_a_real_broker_through_our_proxy(
    tmp_path: Path,
) -> None:
    with real_rocketmq(tmp_path / "store", settings={"timerWheelEnable": "true"}) as cluster:
        config = ProxyConfig(nameservers=(cluster.namesrv_addr,), grpc_port=0)
        async with (
            Proxy(config, SystemClock(), TcpNetwork()) as proxy,
            Admin(nameservers=cluster.namesrv_addr, encoding="json") as admin,
        ):
            for topic in ("orders", "retries"):
                await admin.create_topic(topic, message_type="NORMAL")
            await admin.create_topic("payments", message_type="FIFO")
            for group in (
                SubscriptionGroupConfig(group_name="in-order", consume_message_orderly=True),
                SubscriptionGroupConfig(group_name="retried", group_retry_policy=RETRIED_SOON),
            ):
                await admin.create_group(group)
            assert await printed(proxy.endpoints, SIMPLE) == SIMPLE_TOLD
            assert await printed(proxy.endpoints, PUSHED) == [["bad", "bad", "good"], True]
