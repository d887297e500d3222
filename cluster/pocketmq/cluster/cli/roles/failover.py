"""`pocketmq failover`: make another replica the master."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from pocketmq.client.config import network_of
from pocketmq.cluster.cli.common.complete import complete_broker
from pocketmq.cluster.cli.common.output import Sentences, tell
from pocketmq.cluster.cli.common.run import addresses, find_cluster, run
from pocketmq.cluster.replica_sets import replicas_at
from pocketmq.protocol.bodies.controller import ReplicasInfo
from pocketmq.protocol.errors import RemotingError
from pocketmq.protocol.headers.controller import (
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetControllerMetaDataRequestHeader,
    GetMetaDataResponseHeader,
)
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.errors import CallerError

USUAL_CONTROLLERS = "127.0.0.1:9881;127.0.0.1:9882;127.0.0.1:9883"

HELP = """Make another replica of a broker name the master.

Only a replica in sync can become master, so no acknowledged message is lost. The former master
becomes a slave of the new master. Without --to, the first other replica that is alive and in sync
becomes master.

\b
Examples:
  pocketmq failover --broker broker-a
  pocketmq failover --broker broker-a --to 2 --controllers 127.0.0.1:9881
"""


class NoReplicaError(CallerError):
    """There is nobody to become master."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("failover", help=HELP)(failover)


def failover(
    broker: Annotated[str, typer.Option(help="Broker name.", autocompletion=complete_broker)],
    to: Annotated[
        int | None, typer.Option(help="Id of the replica at the controllers.", min=1)
    ] = None,
    controllers: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT;...",
            envvar="CONTROLLER_ADDR",
            help="Controllers of the cluster, separated by ';'.",
            show_default=f"those of the cluster that runs here, else {USUAL_CONTROLLERS}",
        ),
    ] = None,
    output: Sentences = None,
) -> None:
    asked = addresses(_found() if controllers is None else controllers, "controllers")

    async def main() -> None:
        client = RemotingClient(network_of(os.environ))
        try:
            # Only the leader changes the master; the other controllers would refuse.
            leader = await _leader(client, asked)
            before = await _replicas(client, leader, broker)
            chosen = to if to is not None else _other(broker, before)
            # With `designate_elect` the leader takes this replica; otherwise it chooses by itself.
            header = ElectMasterRequestHeader(
                broker_name=broker, broker_id=chosen, designate_elect=True
            )
            reply = expect(await client.call(leader, header))
            after = reply.header(ElectMasterResponseHeader)
            tell(
                output,
                {
                    "broker": broker,
                    "master": after.master_broker_id,
                    "address": after.master_address,
                    "epoch": after.master_epoch,
                    "before": before.master_broker_id,
                },
                f"{broker}: replica {after.master_broker_id} at {after.master_address} is master"
                f" from epoch {after.master_epoch} on; before it was {before.master_broker_id}",
            )
        finally:
            await client.close()

    run(main())


def _found() -> str:
    """The controllers of the cluster that runs here, as `pocketmq ps` finds it.

    Raises:
        PocketMQError: The control address that POCKETMQ_CONTROL names does not answer.
    """
    cluster = find_cluster()
    roles = cluster.roles if cluster is not None else []
    # None of a cluster without controllers: the usual ones may be there beside it.
    found = ";".join(each.address for each in roles if each.role == "controller" and each.address)
    return found or USUAL_CONTROLLERS


async def _leader(client: RemotingClient, controllers: list[str]) -> str:
    reasons = []
    for address in controllers:
        try:
            reply = expect(await client.call(address, GetControllerMetaDataRequestHeader()))
        # Often the leader has just died; the other controllers know the new one.
        except RemotingError as exc:
            reasons.append(str(exc))
            continue
        leader = reply.header(GetMetaDataResponseHeader).controller_leader_address
        if leader is not None:
            return leader
        # During an election a controller answers, but there is no leader.
        reasons.append(f"{address} knows of no controller that leads")
    raise NoReplicaError(
        f"no controller leads: {'; '.join(reasons)}; start a cluster with `pocketmq up "
        "--controllers 3 --replicas 3`, or name the controllers of a running cluster with "
        "--controllers"
    )


async def _replicas(client: RemotingClient, leader: str, broker: str) -> ReplicasInfo:
    found = await replicas_at(client, leader, broker)
    if found is None:
        raise NoReplicaError(
            f"the controllers do not know broker {broker}; check its name with `mqadmin "
            "getSyncStateSet`"
        )
    return found


def _other(broker: str, replicas: ReplicasInfo) -> int:
    for each in replicas.in_sync_replicas:
        # The in-sync set may contain a replica that has just died, as it shrinks only later.
        if each.alive and each.broker_id != replicas.master_broker_id:
            return each.broker_id
    raise NoReplicaError(
        f"{broker} has no replica that is alive and in sync, except its master "
        f"{replicas.master_broker_id}; wait until another replica has caught up"
    )
