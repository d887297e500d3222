"""A change of role is a row of effects: what comes first, and what happens after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.replication.role_changes import LaterEpochError, MasterAddresses, RoleChanges
from pocketmq.broker.role import RoleState
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.store import OsDisk
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.signals import Signal
from support.disks import FullDisk
from support.eventually import eventually

MASTER = MasterAddresses("127.0.0.1:10911", "127.0.0.1:10912")
OTHER = MasterAddresses(None, "127.0.0.1:20912")
"""Only its stream is known."""


class Effects:
    """What a change of role does to its surroundings, in its order."""

    def __init__(self, folder: Path, role: BrokerRole, disk: OsDisk | None = None) -> None:
        self.done: list[str] = []
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.role = RoleState(role, 0 if role is not BrokerRole.SLAVE else 1)
        self.is_following = role is BrokerRole.SLAVE
        set_role, apply, note_master = self.role.set, self.role.apply, self.role.note_master

        def set_noted(role: BrokerRole, broker_id: int, epoch: int) -> None:
            self.done.append(f"role {role.value}")
            set_role(role, broker_id, epoch)

        async def apply_noted() -> None:
            self.done.append("apply")
            await apply()

        def master_noted(*, is_known: bool) -> None:
            self.done.append("known" if is_known else "unknown")
            note_master(is_known=is_known)

        self.role.set, self.role.apply = set_noted, apply_noted  # type: ignore[method-assign]
        self.role.note_master = master_noted  # type: ignore[method-assign]
        self._log = SimpleNamespace(max_offset=500, min_offset=0)
        store: Any = SimpleNamespace(
            commit_log=self._log,
            replica=SimpleNamespace(follow=self._follow, lead=self._lead, is_following=False),
        )
        client: Any = SimpleNamespace(
            follow=lambda address: self.done.append(f"follow {address}"),
            stopped_following=self._stopped,
            retry=self.note("retry"),
        )
        ha: Any = SimpleNamespace(drop_all=lambda _why: self.done.append("drop slaves"))
        replicas: Any = SimpleNamespace(give_up=self.note("give up"))
        self.changed: Signal[[]] = Signal()
        self.changed.connect(self.note("told"))
        self.roles = RoleChanges(
            self.role, store, ha, client, replicas,
            EpochFile(str(folder), disk or OsDisk()), self.changed,
        )  # fmt: skip

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.done.append(what)

    def log_ends_at(self, offset: int) -> None:
        self._log.max_offset = offset

    def _follow(self) -> None:
        self.done.append("refuse puts")

    async def _lead(self, *, is_confirmed: bool) -> None:
        self.done.append("take puts")

    async def _stopped(self) -> None:
        await self.may_stop.wait()
        self.done.append("stopped")


async def test_a_slave_leads_when_nothing_of_its_master_is_written_any_more(
    tmp_path: Path,
) -> None:  # D-10 to D-15, I-17
    effects = Effects(tmp_path, BrokerRole.SLAVE)
    effects.may_stop.clear()
    change = asyncio.ensure_future(effects.roles.become_master(3))
    await eventually(lambda: effects.done == ["follow None"], "it follows nobody")
    effects.may_stop.set()
    await change
    assert effects.done == [
        "follow None", "stopped", "drop slaves", "take puts", "role SYNC_MASTER", "apply", "told",
    ]  # fmt: skip
    assert effects.roles.epochs.table.last_number == 3


async def test_a_master_refuses_puts_before_it_is_a_slave_and_tells_who_waits_at_once(
    tmp_path: Path,
) -> None:  # I-17
    effects = Effects(tmp_path, BrokerRole.SYNC_MASTER)
    await effects.roles.become_slave(1, MASTER, 2)
    assert effects.done == [
        "refuse puts", "role SLAVE", "give up", "drop slaves", "apply", "follow None", "stopped",
        "known", f"follow {MASTER.replication}", "told",
    ]  # fmt: skip
    effects.done.clear()
    await effects.roles.become_slave(1, OTHER, 2)
    assert effects.done[-2:] == [f"follow {OTHER.replication}", "told"], "the same term"
    assert "unknown" in effects.done


async def test_a_slave_keeps_its_master_until_nothing_of_it_is_written_any_more(
    tmp_path: Path,
) -> None:
    effects = Effects(tmp_path, BrokerRole.SLAVE)
    await effects.roles.become_slave(1, MASTER, 1)
    effects.may_stop.clear()
    change = asyncio.ensure_future(effects.roles.become_slave(1, OTHER, 2))
    await eventually(lambda: effects.done[-1] == "follow None", "it follows nobody")
    assert effects.roles.master == MASTER
    effects.may_stop.set()
    await change
    assert effects.roles.master == OTHER


@pytest.mark.parametrize("role", [BrokerRole.SLAVE, BrokerRole.SYNC_MASTER])
async def test_a_slave_refuses_puts_from_the_start_and_knows_its_epochs(
    tmp_path: Path, role: BrokerRole
) -> None:  # H-134
    before = Effects(tmp_path, BrokerRole.SLAVE)
    await before.roles.become_master(1)
    before.log_ends_at(900)
    await before.roles.become_master(2)
    effects = Effects(tmp_path, role)
    await effects.roles.load()
    assert effects.roles.epochs.table.last == Epoch(2, 900)
    effects.roles.recovered()
    assert effects.roles.epochs.table.last == Epoch(1, 500), "a power cut took the rest"
    assert effects.done == (["refuse puts"] if role is BrokerRole.SLAVE else [])


async def test_a_slave_follows_who_is_named_and_a_master_nobody(tmp_path: Path) -> None:
    effects = Effects(tmp_path, BrokerRole.SLAVE)
    effects.roles.master_told(*MASTER)
    assert effects.done == ["known", f"follow {MASTER.replication}"]
    effects.roles.master_told(OTHER.broker, None)  # H-7
    assert effects.roles.master == MasterAddresses(OTHER.broker, MASTER.replication)
    assert effects.done[2:] == ["unknown"]
    effects.done.clear()
    effects.roles.master_lost()  # Z-5
    assert effects.roles.master == MasterAddresses(None, None)
    assert effects.done == ["unknown", "follow None"]
    await effects.roles.become_master(1)
    effects.done.clear()
    effects.roles.master_told(*MASTER)
    effects.roles.master_lost()
    effects.roles.stream_told("127.0.0.1:10912")
    assert (effects.done, effects.roles.master) == ([], MasterAddresses(None, None))


async def test_a_master_that_is_elected_again_only_begins_an_epoch(tmp_path: Path) -> None:
    effects = Effects(tmp_path, BrokerRole.SLAVE)  # H-145
    await effects.roles.become_master()
    assert effects.roles.epochs.table.last is None, "no controller, no epoch"
    for epoch in (3, 3, 4):
        effects.done.clear()
        await effects.roles.become_master(epoch)
        assert effects.done == ["follow None", "stopped", "role SYNC_MASTER", "apply", "told"]
        assert effects.roles.epochs.table.last_number == epoch


async def test_a_log_that_is_further_than_its_controllers_leads_in_no_epoch_of_theirs(
    tmp_path: Path,
) -> None:
    await Effects(tmp_path, BrokerRole.SLAVE).roles.become_master(5)
    effects = Effects(tmp_path, BrokerRole.SLAVE)
    await effects.roles.load()
    with pytest.raises(LaterEpochError):
        await effects.roles.become_master(4)
    assert effects.done == []
    await effects.roles.become_master()
    assert effects.role.leads, "it needs no controller"


@pytest.mark.parametrize("led", [False, True])
async def test_a_broker_whose_epoch_is_not_on_the_disk_is_no_new_master(
    tmp_path: Path, led: bool
) -> None:  # F-8
    disk = FullDisk()
    effects = Effects(tmp_path, BrokerRole.SLAVE, disk)
    if led:
        await effects.roles.become_master(1)
    effects.done.clear()
    disk.is_full = True
    with pytest.raises(DiskError):
        await effects.roles.become_master(2)
    if led:
        assert effects.done == ["follow None", "stopped"], "it leads in its old one"
        return
    assert effects.done == ["follow None", "stopped", "drop slaves", "take puts", "refuse puts"]
    assert not effects.role.leads
    effects.roles.master_told(*MASTER)
    assert effects.roles.master == MASTER, "it may follow again"


async def test_an_id_of_a_master_is_no_slave_s(tmp_path: Path) -> None:
    effects = Effects(tmp_path, BrokerRole.SYNC_MASTER)
    with pytest.raises(ValueError, match="above 0"):
        await effects.roles.become_slave(0, MASTER, 1)
    assert effects.done == []


async def test_a_stream_that_is_named_is_followed_at_once(tmp_path: Path) -> None:  # Z-9
    effects = Effects(tmp_path, BrokerRole.SLAVE)
    effects.roles.stream_told("127.0.0.1:10912")
    assert effects.done == ["follow 127.0.0.1:10912", "retry"]


async def test_an_older_term_changes_nothing(tmp_path: Path) -> None:  # I-2
    effects = Effects(tmp_path, BrokerRole.SLAVE)
    await effects.roles.become_slave(1, MASTER, 5)
    effects.done.clear()
    with pytest.raises(ValueError, match="older"):
        await effects.roles.become_master(4)
    with pytest.raises(ValueError, match="older"):
        await effects.roles.become_slave(1, MASTER, 4)
    assert effects.done == []
