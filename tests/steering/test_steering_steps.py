"""What steering a cluster does in which order, and after a failure; the roles are the test's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.cluster.steering import clock_runner, snapshots
from pocketmq.cluster.steering.clock_runner import MOST_FAILURES, ClockRunner
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.faults import ClusterFaults
from pocketmq.cluster.steering.snapshots import FILE, Snapshots
from pocketmq.operation.faults.rule import FaultRule
from pocketmq.runtime.errors import DiskError, PeerError
from pocketmq.runtime.files.replaced_folder import rename, sync_tree
from pocketmq.runtime.manual_time import lock_step
from support.eventually import eventually

TIME_MS = 1_700_000_000_000


# -- the clock ----------------------------------------------------------------------------------


async def test_a_clock_that_runs_gives_up_after_failures_in_a_row_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock_runner, "STEP_S", 0.0)
    moves = 0
    fails_from = 4 * MOST_FAILURES

    async def advance(_seconds: float) -> None:
        nonlocal moves
        moves += 1
        if moves >= fails_from or moves % MOST_FAILURES:
            raise PeerError("a role has just been killed")

    runner = ClockRunner(advance)
    await runner.run(10.0)
    await eventually(lambda: not runner.speed, "it gives up")
    assert moves == fails_from
    await runner.stop()


# -- one role -----------------------------------------------------------------------------------


def control(done: list[str]) -> Any:
    """A `ClusterControl` that only notes what it has done."""

    class Noted:
        names = ("broker-a",)

        async def thaw(self, name: str) -> None:
            done.append(f"thaw {name}")

        async def tell(self, name: str, *, is_new: bool) -> None:
            done.append(f"tell {name} {'anew' if is_new else 'again'}")

        @contextlib.contextmanager
        def acting(self, _name: str, state: str) -> Iterator[None]:
            yield
            done.append(state)

    made: Any = ClusterControl.__new__(ClusterControl)
    made.roles = made.faults = made.events = Noted()
    made.timeline, made.unfinished, made.clock = [], [], "manual"
    made.view = SimpleNamespace(time_ms=lambda: TIME_MS)

    async def members() -> list[object]:
        return []

    made._members = members
    return made


async def test_a_role_that_thaws_hears_the_rules_and_catches_up_with_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []

    async def advance_to(_members: object, time_ms: int) -> None:
        done.append(f"time {time_ms}")

    monkeypatch.setattr(lock_step, "advance_to", advance_to)
    await control(done).thaw("broker-a")
    assert done == ["thaw broker-a", "running", "tell broker-a again", f"time {TIME_MS}"]


def test_what_fails_before_a_cluster_is_ready_keeps_it_from_that_no_longer() -> None:
    made = control([])

    def seed() -> None:
        with made.before_ready("seeding is not done"):
            assert made.unfinished == ["seeding is not done"]
            raise OSError("seeding")

    with pytest.raises(OSError, match="seeding"):
        seed()
    assert made.unfinished == []


async def test_roles_are_told_of_fault_rules_as_they_are_after_each_change() -> None:
    told: list[list[str]] = []
    roles: Any = SimpleNamespace(names=["broker-a"])
    faults = ClusterFaults(roles)

    async def send() -> None:
        told.append([each.id for each in faults.rules])

    faults._send = send  # type: ignore[method-assign]
    for _ in range(2):
        await faults.add(FaultRule(do="delay", role="broker-a", delay_ms=1000))
    await faults.clear("r1")
    await faults.clear()
    assert told == [["r1"], ["r1", "r2"], ["r2"], []]


# -- snapshots ----------------------------------------------------------------------------------


class Roles:
    """One nameserver, stopped and started as it is told."""

    names, credentials = ("nameserver-1",), None

    def __init__(self, data: Path, done: list[str]) -> None:
        self.data, self.done = data, done
        (data / "nameserver-1").mkdir(parents=True)
        (data / "nameserver-1" / "kvConfig.json").write_text("{}")

    def role(self, _name: str) -> str:
        return "nameserver"

    def state(self, _name: str) -> str:
        return "running"

    async def stop_role(self, name: str) -> None:
        self.done.append(f"stop {name}")

    async def start(self, name: str) -> None:
        self.done.append(f"start {name}")


@pytest.fixture
def roles(tmp_path: Path) -> Roles:
    return Roles(tmp_path / "data", [])


async def test_a_snapshot_is_whole_on_the_disk_before_its_file_says_so(
    roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def noted_sync(folder: Path) -> None:
        roles.done.append("sync all")
        sync_tree(folder)

    def noted_rename(source: Path, target: Path) -> None:
        roles.done.append(f"name {target.name}")
        rename(source, target)

    monkeypatch.setattr(snapshots, "sync_tree", noted_sync)
    monkeypatch.setattr(snapshots, "rename", noted_rename)
    made: Any = roles
    await Snapshots(made, roles.start).save(tmp_path / "s", TIME_MS)
    assert roles.done == ["stop nameserver-1", "start nameserver-1", "sync all", f"name {FILE}"]


async def test_half_a_snapshot_goes_and_its_role_starts_again(
    roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_source: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshots, "copy_sparse", fails)
    made: Any = roles
    folder = tmp_path / "s"
    with pytest.raises(DiskError, match="No space left"):
        await Snapshots(made, roles.start).save(folder, TIME_MS)
    assert not folder.exists()
    assert roles.done == ["stop nameserver-1", "start nameserver-1"]


async def test_a_load_that_cannot_be_copied_leaves_nothing_and_stops_nobody(
    roles: Roles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Any = roles
    steering = Snapshots(made, roles.start)
    await steering.save(tmp_path / "s", TIME_MS)
    roles.done.clear()

    def fails(_source: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(snapshots, "copy_sparse", fails)
    with pytest.raises(DiskError, match="No space left"):
        await steering.load(tmp_path / "s")
    assert [path.name for path in roles.data.iterdir()] == ["nameserver-1"]
    assert roles.done == []
