"""Controllers as processes: they start with the cluster, and one of them always leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from support.eventually import eventually

pytestmark = pytest.mark.cluster


async def test_another_controller_leads_when_the_leading_one_is_killed() -> None:
    async with local_cluster(controllers=3, brokers=0) as cluster:
        leader = await cluster.leading_controller()
        assert leader is not None
        await leader.kill()
        other = await eventually(cluster.leading_controller, "another controller leads")
        assert other.name != leader.name
        await cluster.restart(leader.name)

        async def has_caught_up() -> bool:
            mine = await cluster.control(leader.name).status()
            theirs = await cluster.control(other.name).status()
            return mine["commitIndex"] == theirs["commitIndex"] and mine["term"] == theirs["term"]

        await eventually(has_caught_up, "the restarted controller follows")


async def test_on_manual_clocks_controllers_elect_as_the_cluster_starts() -> None:
    async with local_cluster(controllers=3, brokers=0, clock="manual") as cluster:
        leader = await cluster.leading_controller()
        assert leader is not None
        await cluster.advance(seconds=5)
        await cluster.wait_for_controllers()  # the lead may have changed: messages take real time


def test_controllers_know_each_other_s_ports_before_they_start() -> None:
    options = ClusterOptions(controllers=3, any_port=True)
    spec = cluster_spec(options, Path("/data"), controller_ports=[7001, 7002, 7003])
    assert [each.name for each in spec.controllers] == [
        "controller-1", "controller-2", "controller-3",
    ]  # fmt: skip
    for at, each in enumerate(spec.controllers):
        told = dict(zip(each.arguments[::2], each.arguments[1::2], strict=False))
        assert told["--self-id"] == f"n{at}"
        assert told["--peers"] == "n0-127.0.0.1:7001;n1-127.0.0.1:7002;n2-127.0.0.1:7003"
        assert told["--store-path"] == f"/data/controller-{at + 1}"
    with pytest.raises(ValueError, match="free ports"):
        cluster_spec(options, Path("/data"))
