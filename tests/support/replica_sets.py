"""What the controllers of a cluster say of a broker name."""

from __future__ import annotations

import msgspec

from pocketmq.cluster.supervisor import Supervisor
from pocketmq.protocol.bodies.controller import BrokerReplicasInfo, ReplicasInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.headers.controller import GetSyncStateDataRequestHeader


async def replicas(cluster: Supervisor, name: str = "broker-a") -> ReplicasInfo:
    """Master and replicas; empty while no controller leads."""
    leader = await cluster.leading_controller()
    if leader is None:
        return ReplicasInfo()
    reply = await cluster.remoting.call(
        leader.address, GetSyncStateDataRequestHeader(), msgspec.msgpack.encode([name])
    )
    if reply.code:
        return ReplicasInfo()
    body = decode_body(reply.body_view, BrokerReplicasInfo, reply.encoding)
    return body.replicas_info_table.get(name, ReplicasInfo())


async def in_sync(cluster: Supervisor, name: str = "broker-a") -> list[int]:
    """Ids of the replicas in sync."""
    return sorted(each.broker_id for each in (await replicas(cluster, name)).in_sync_replicas)
