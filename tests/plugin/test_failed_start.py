"""A cluster of threads of which one role cannot start: nothing of the others is left."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pocketmq.broker import Broker
from pocketmq.cluster.steering.shape import ClusterShape
from pocketmq.testing.in_process import RoleThreads
from pocketmq.testing.role_thread import RoleSeams


class FailedStartError(Exception):
    pass


class FirstBrokerFails(RoleThreads):
    """The others are still starting when it does."""

    def __init__(self, shape: ClusterShape, data: Path) -> None:
        super().__init__(shape, data)
        self.failed = threading.Event()

    def broker(self, name: str, seams: RoleSeams, port: int) -> Broker:
        if name == "broker-a":
            self.failed.set()
            raise FailedStartError
        self.failed.wait()
        return super().broker(name, seams, port)


async def test_starts_under_way_are_waited_for_and_stopped_too(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    roles = FirstBrokerFails(ClusterShape(brokers=3), tmp_path)
    with pytest.raises(FailedStartError):
        await roles.start()
    assert {roles.state(name) for name in roles.names} == {"ended"}
    left = {each.name for each in set(threading.enumerate()) - before}
    assert not [name for name in left if name.startswith("pocketmq ")]
