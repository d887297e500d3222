"""Roles on the data folder of a cluster whose snapshot load was killed once it was decided."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.runtime.files.replaced_together import coming_folder, commit
from pocketmq.runtime.ports import free_ports

pytestmark = pytest.mark.cluster

NAMES = ["nameserver-1", "controller-1", "broker-a", "broker-b"]


def each_by_itself(data: Path) -> Supervisor:
    """As `pocketmq nameserver`, `controller` and `broker` are started on their folders."""
    options = ClusterOptions(controllers=1, brokers=2, any_port=True)
    return Supervisor(
        cluster_spec(options, data, controller_ports=free_ports(options.host, 1)),
    )


def together(data: Path) -> AbstractAsyncContextManager[Supervisor]:
    return local_cluster(controllers=1, brokers=2, data=data)


@pytest.mark.parametrize("start", [each_by_itself, together])
async def test_each_role_takes_the_data_that_was_decided(
    tmp_path: Path, start: Callable[[Path], AbstractAsyncContextManager[Supervisor]]
) -> None:
    coming = coming_folder(tmp_path)
    for folder, text in ((tmp_path, "old"), (coming, "new")):
        for name in NAMES:
            (folder / name).mkdir()
            (folder / name / "of").write_text(text)
    commit(coming)
    (tmp_path / "broker-a").rename(tmp_path / ".broker-a.replaced")  # killed while it came
    async with start(tmp_path) as cluster:
        told = [name for name in NAMES if "data.restored" in cluster[name].log_tail(100)]
    assert told == (NAMES if start is each_by_itself else [])
    assert [(tmp_path / name / "of").read_text() for name in NAMES] == ["new"] * len(NAMES)
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
