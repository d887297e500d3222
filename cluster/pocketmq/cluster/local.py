"""Starts a cluster of real processes on free ports, for a script or a test.

async with local_cluster(nameservers=2, brokers=2, clock="manual") as cluster:
    producer = Producer("p", nameservers=cluster.namesrv_addr)
    await cluster["broker-a"].freeze()
    await cluster.advance(seconds=126)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import structlog

from pocketmq.cluster.folder import data_folder
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.files.replaced_together import finish_together
from pocketmq.runtime.logs import configure_if_unset
from pocketmq.runtime.ports import free_ports

log = structlog.get_logger()


@asynccontextmanager
async def local_cluster(
    *,
    nameservers: int = 1,
    controllers: int = 0,
    brokers: int = 1,
    replicas: int = 1,
    proxy: bool = False,
    clock: Literal["real", "manual"] = "real",
    host: str = "127.0.0.1",
    tls: bool = False,
    members_must_prove: bool = False,
    strangers_read_routes: bool = False,
    users: Path | None = None,
    data: Path | None = None,
    broker_arguments: Sequence[str] = (),
) -> AsyncIterator[Supervisor]:
    """Start a cluster for an `async with` block.

    Args:
        nameservers: nameserver-1, nameserver-2, ...
        controllers: controller-1, controller-2, ...; one of them leads when the block begins.
        brokers: broker-a, broker-b, ...
        replicas: Brokers of each name: broker-a, broker-a-2, ...; more than 1 need controllers.
        proxy: A gRPC proxy for RocketMQ 5's SDKs, at `cluster.endpoints`; needs `pocketmq[grpc]`.
        clock: With `manual`, time only moves by `cluster.advance(seconds)`.
        host: Address on which all of them listen, such as `::1`.
        tls: TLS on every port, and nothing else; clients trust `cluster.spec.tls.certificate`.
        members_must_prove: With `tls`: nameservers, controllers and replication take requests of
            processes only that know the cluster's secret; clients are given
            `member_secret_file=cluster.spec.member_secret`.
        strangers_read_routes: With `members_must_prove`: nameservers tell everybody routes,
            clusters and names of topics, for clients that know no secret.
        users: TOML or JSON file with users and rules (docs/security.md): brokers then check every
            request.
        data: Folder for stores and logs; by default they are removed at the end.
        broker_arguments: Added to each broker's command line: `--flush-disk-type SYNC_FLUSH`.

    Raises:
        ProcessStartError: A process did not become ready.
    """
    configure_if_unset()  # unconfigured, structlog prints to standard output
    options = ClusterOptions(
        nameservers=nameservers,
        controllers=controllers,
        brokers=brokers,
        replicas=replicas,
        proxy=proxy,
        host=host,
        tls=tls,
        members_must_prove=members_must_prove,
        strangers_read_routes=strangers_read_routes,
        users=users,
        any_port=True,
        clock=clock,
    )
    with data_folder(data) as folder:
        # An interrupted load or reset must be completed before a broker opens its store.
        for line in finish_together(folder.path):
            log.warning("data.restored", what=line)
        spec = cluster_spec(
            options,
            folder.path,
            broker_arguments=broker_arguments,
            controller_ports=free_ports(options.host, controllers),
        )
        # Kept in the folder, since the brokers of a kept store know the key of its first start.
        access = None if users is None else ClusterAccess.read(users).kept_in(folder.path)
        async with Supervisor(
            spec,
            env=None if access is None else access.environment,
            credentials=None if access is None else access.steering,
        ) as cluster:
            if access is not None:
                addresses = {each.name: each.address for each in cluster.of_role("broker")}
                # Created through the running brokers; a kept store has its users already.
                await access.make(cluster.remoting, addresses)
            yield cluster
