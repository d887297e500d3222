"""Replicas of one broker name and controllers are parted from each other, by their roles' names."""

from __future__ import annotations

import pytest

from pocketmq.client import Admin, Message, Producer
from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.replica_sets import in_sync, replicas
from pocketmq.cluster.steering.faults import ClusterFaults
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.operation.faults.rule import OTHERS, FaultRule
from pocketmq.runtime.errors import ClockMemberError
from support.eventually import PATIENCE_MS, eventually

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


async def master_of(cluster: Supervisor) -> str:
    """Name of the process that is master now; empty while there is none."""
    address = (await replicas(cluster)).master_address
    return next((each.name for each in cluster.of_role("broker") if each.address == address), "")


async def test_replicas_and_controllers_are_parted_and_find_each_other_again() -> None:
    async with local_cluster(controllers=3, replicas=3) as cluster:
        faults = ClusterFaults(RoleProcesses(cluster))

        async def members() -> int:
            return len(await in_sync(cluster))

        async def has_members(count: int) -> bool:
            return await members() == count

        await eventually(lambda: has_members(3), "all replicas are in sync")
        async with Admin(nameservers=cluster.namesrv_addr, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.create_topic("orders", queues=1)
        first = await eventually(lambda: master_of(cluster), "one is master")
        slave, other = (each.name for each in cluster.of_role("broker") if each.name != first)

        # one slave from its master only: what is sent meanwhile it does not get
        await faults.add(FaultRule(do="partition", role=slave, other=first))
        async with Producer(
            "p", nameservers=cluster.namesrv_addr, send_timeout_ms=PATIENCE_MS
        ) as producer:
            await producer.send(Message("orders", b"without it"), timeout_ms=60_000)
        lasting = {cluster[name].address for name in (first, other)}

        async def is_taken_out() -> bool:
            in_set = (await replicas(cluster)).in_sync_replicas
            return {each.broker_address for each in in_set} == lasting

        await eventually(is_taken_out, "the slave is taken out of the set")
        await faults.clear()
        await eventually(lambda: has_members(3), "the slave has all again")

        # the master from everybody: another one is elected, and the former follows it
        await faults.add(FaultRule(do="partition", role=first, other=OTHERS))

        async def is_replaced() -> bool:
            return await master_of(cluster) not in ("", first)

        await eventually(is_replaced, "another master is elected", limit_s=90.0)
        await faults.clear()
        await eventually(lambda: has_members(3), "the former master follows", limit_s=90.0)

        # the leading controller from the others
        leader = await eventually(cluster.leading_controller, "a controller leads")
        rest = [each.name for each in cluster.of_role("controller") if each.name != leader.name]
        for name in rest:
            await faults.add(FaultRule(do="partition", role=leader.name, other=name))

        async def another_leads() -> bool:
            try:
                statuses = [await cluster.control(name).status() for name in rest]
            except ClockMemberError:  # no answer in time
                return False
            return any(status["serves"] == "true" for status in statuses)

        await eventually(another_leads, "another controller leads")
        await faults.clear()
        await eventually(lambda: has_members(3), "the controllers agree")
