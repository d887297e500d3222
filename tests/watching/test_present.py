"""What is told to somebody who begins to watch a cluster that has long been running."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.cluster.watch_page.present import present
from pocketmq.operation.events.roles import BrokerRegistered, RoleChanged, RoleStarted

pytestmark = pytest.mark.cluster


async def test_replicas_are_told_with_the_process_that_each_is(tmp_path: Path) -> None:
    options = ClusterOptions(nameservers=1, brokers=1, slaves=1, any_port=True, log_level="error")
    control = ClusterControl(RoleProcesses(Supervisor(cluster_spec(options, tmp_path))), "real")
    try:
        await control.start()
        events = await present(control)
    finally:
        await control.stop()
    assert {each.role for each in events if isinstance(each, RoleStarted)} == {
        "nameserver-1",
        "broker-a",
        "broker-a-s1",
    }
    replicas = {
        each.by: (each.broker, each.broker_id, each.role)
        for each in events
        if isinstance(each, RoleChanged)
    }
    assert replicas == {
        "broker-a": ("broker-a", 0, "MASTER"),
        "broker-a-s1": ("broker-a", 1, "SLAVE"),
    }
    registered = [each for each in events if isinstance(each, BrokerRegistered)]
    assert {(each.broker, each.broker_id) for each in registered} == {
        ("broker-a", 0),
        ("broker-a", 1),
    }
