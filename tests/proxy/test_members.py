"""Clients of a proxy in what tools ask: brokers do not know them."""

from __future__ import annotations

from pathlib import Path

from pocketmq.client import Admin
from pocketmq.cluster.cli.roles.connections import connected
from pocketmq.cluster.explain.facts import gather_facts
from pocketmq.cluster.explain.findings import findings
from pocketmq.cluster.group_view import look_at
from pocketmq.proxy.protos.classes import pb
from pocketmq.proxy.protos.enums import ClientType
from support.grpc_consuming import create_group
from support.proxy_rig import proxy_rig


async def problems(admin: Admin, group: str) -> str:
    """What `group explain` says."""
    return "; ".join(each.problem for each in findings(await gather_facts(admin, group)))


async def test_consumers_and_producers_of_a_proxy_are_shown(tmp_path: Path) -> None:
    said = {"x-mq-language": "GO", "x-mq-client-version": "5.1.4"}
    async with proxy_rig(tmp_path) as rig:
        cluster = rig.cluster
        await cluster.create_topic("orders", 1)
        await create_group(rig, "billing")
        await rig.sdk("shop-1", **said).publish("orders")
        await rig.sdk("billing-1", **said).subscribe(
            "billing", "orders", kind=ClientType.PUSH_CONSUMER
        )
        async with Admin(
            nameservers=cluster.nameserver.address, clock=cluster.clock, network=cluster.network
        ) as admin:
            shown = [
                (each.broker, each.role, each.group, each.client_id, each.language)
                for each in await connected(admin)
                if each.group in ("orders", "billing")
            ]
            assert shown == [
                ("proxy-1", "consumer", "billing", "billing-1", "GO 5.1.4"),
                ("proxy-1", "producer", "orders", "shop-1", "GO 5.1.4"),
            ]
            group = await look_at(admin, "billing")
            [member] = group.members
            assert (member.client_id, member.brokers, member.answers) == (
                "billing-1", ("proxy-1",), True,
            )  # fmt: skip
            assert [(each.topic, each.expression) for each in group.subscriptions] == [
                ("orders", "*")
            ]
            assert await problems(admin, "billing") == ""
            gone = pb.Resource(name="billing")
            await rig.sdk("billing-1", **said).call("NotifyClientTermination", group=gone)
            assert (await look_at(admin, "billing")).members == ()
            assert "no member is connected" in await problems(admin, "billing")
