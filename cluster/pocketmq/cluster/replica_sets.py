"""What the controllers of a running cluster say of a broker name."""

from __future__ import annotations

import msgspec

from pocketmq.cluster.supervisor import Supervisor
from pocketmq.protocol.bodies.controller import BrokerReplicasInfo, ReplicasInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.errors import BrokerError, RemotingError
from pocketmq.protocol.headers.controller import GetSyncStateDataRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient, expect


async def replicas_at(client: RemotingClient, controller: str, name: str) -> ReplicasInfo | None:
    """Master and replicas of a broker name; None when the controllers do not know it.

    Args:
        client: Connections.
        controller: `host:port` of the one that leads.
        name: The broker name.

    Raises:
        RemotingError: It does not answer.
        BrokerError: It refuses; another one leads by now.
    """
    names = msgspec.msgpack.encode([name])
    reply = expect(await client.call(controller, GetSyncStateDataRequestHeader(), names))
    table = decode_body(reply.body_view, BrokerReplicasInfo, reply.encoding).replicas_info_table
    return table.get(name)


async def replicas(cluster: Supervisor, name: str = "broker-a") -> ReplicasInfo:
    """Master and replicas; empty while no controller leads."""
    leader = await cluster.leading_controller()
    if leader is None:
        return ReplicasInfo()
    try:
        found = await replicas_at(cluster.remoting, leader.address, name)
    # It has just lost the lead or ended, so nobody knows the set now.
    except (RemotingError, BrokerError):
        return ReplicasInfo()
    return found or ReplicasInfo()


async def in_sync(cluster: Supervisor, name: str = "broker-a") -> list[int]:
    """Ids of the replicas in sync."""
    return sorted(each.broker_id for each in (await replicas(cluster, name)).in_sync_replicas)
