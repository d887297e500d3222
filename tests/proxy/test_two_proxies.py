"""Two proxies in front of one cluster, and clients of both protocols beside each other (G-55)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

from pocketmq.client import MessageExt
from pocketmq.proxy.assembly.proxy import Proxy
from pocketmq.proxy.config import ProxyConfig
from pocketmq.proxy.protos.enums import Code
from support.eventually import PATIENCE_S, eventually
from support.grpc_consuming import ack, entry, receive, received, send
from support.proxy_rig import ProxyRig, proxy_rig


async def test_consumers_move_between_proxies_and_nothing_is_lost(tmp_path: Path) -> None:
    bodies = {str(number) for number in range(60)}
    async with proxy_rig(tmp_path) as first:
        cluster = first.cluster
        await cluster.create_topic("orders", 4)
        config = ProxyConfig(
            name="proxy-2", nameservers=(cluster.nameserver.address,), grpc_port=0, port=8082,
            encoding="msgpack",
        )  # fmt: skip
        async with Proxy(config, cluster.clock, cluster.network) as proxy:
            second = ProxyRig(cluster, proxy)
            await send(first, *sorted(bodies))
            here, there = first.sdk("here"), second.sdk("there")
            for sdk in (here, there):
                await sdk.subscribe("billing", "orders")
            seen = Counter[str]()
            for rig, sdk in ((first, here), (second, there)):
                some = received(await receive(rig, sdk, batch_size=20))
                assert some, "the group's members share the messages, wherever they are"
                for message in some[:10]:
                    assert (await ack(sdk, entry(message))).status.code == Code.OK
                    seen[message.body.decode()] += 1
                if sdk is here:
                    held = some[10:]
            # A handle of one proxy is acknowledged through the other: it knows all that it needs.
            for message in held[:3]:
                assert (await ack(there, entry(message))).status.code == Code.OK
                seen[message.body.decode()] += 1
            await first.proxy.abort()
            await cluster.advance(31)  # what the lost consumer still had is visible again
            async with asyncio.timeout(PATIENCE_S):
                while set(seen) != bodies:
                    for message in received(await receive(second, there)):
                        assert (await ack(there, entry(message))).status.code == Code.OK
                        seen[message.body.decode()] += 1
            assert set(seen.values()) == {1}, "what was acknowledged did not come again"
            await second.close()


async def test_both_kinds_of_clients_share_a_topic(tmp_path: Path) -> None:
    """In two groups, each gets what both kinds of producers sent."""
    bodies = {f"{kind} {number}" for kind in ("grpc", "remoting") for number in range(10)}
    heard: list[str] = []

    async def listen(message: MessageExt) -> None:
        heard.append(bytes(message.body).decode())

    async with proxy_rig(tmp_path) as rig:
        cluster = rig.cluster
        await cluster.create_topic("orders", 4)
        sdk, seen = rig.sdk(), list[str]()
        await sdk.subscribe("billing", "orders")
        consumer = cluster.consumer("audit")
        consumer.subscribe("orders")
        consumer.listen(listen)
        async with consumer:
            await send(rig, *sorted(each for each in bodies if each.startswith("remoting")))
            for body in sorted(each for each in bodies if each.startswith("grpc")):
                assert (await sdk.send("orders", body.encode())).status.code == Code.OK
            while len(seen) < len(bodies):
                for message in received(await receive(rig, sdk)):
                    assert (await ack(sdk, entry(message))).status.code == Code.OK
                    seen.append(message.body.decode())
            await cluster.until(lambda: len(heard) >= len(bodies), "the other group has them")
        assert sorted(seen) == sorted(heard) == sorted(bodies)
        await eventually(lambda: rig.proxy.receives_waiting == 0, "nobody waits")
