"""The cluster on which a judge works: real processes on free ports, on manual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pocketmq.cluster.folder import data_folder
from pocketmq.cluster.labs.catalog import Lab
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.ports import free_ports


@asynccontextmanager
async def world_of(lab: Lab) -> AsyncIterator[ClusterControl]:
    """The cluster that a lab needs.

    Raises:
        ProcessStartError: A role did not become ready.
    """
    options = ClusterOptions(
        brokers=lab.brokers,
        controllers=lab.controllers,
        any_port=True,
        clock="manual",
        log_level="warning",
    )
    with data_folder(None) as folder:
        spec = cluster_spec(
            options,
            folder.path,
            broker_arguments=lab.broker_arguments,
            controller_ports=free_ports(options.host, lab.controllers),
        )
        # The judge uses this control directly, without a control address.
        control = ClusterControl(RoleProcesses(Supervisor(spec)), "manual")
        try:
            await control.start()
            yield control
        finally:
            # Also after a failed start: it has already stopped the roles, and a second stop does
            # nothing.
            await control.stop()
