"""A change of role is a row of effects: what comes first, and what happens after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.role_changes import MasterAddresses, RoleChanges
from pocketmq.broker.role import RoleState
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.store import OsDisk
from pocketmq.runtime.signals import Signal
from support.eventually import eventually

MASTER = MasterAddresses("127.0.0.1:10911", "127.0.0.1:10912")


class Effects:
    """What a change of role does to its surroundings, in its order."""

    def __init__(self, folder: Path, role: BrokerRole) -> None:
        self.done: list[str] = []
        self.may_stop = asyncio.Event()
        self.may_stop.set()
        self.role = RoleState(role, 0 if role is not BrokerRole.SLAVE else 1)
        self.is_following = role is BrokerRole.SLAVE
        set_role, apply = self.role.set, self.role.apply

        def set_noted(role: BrokerRole, broker_id: int, epoch: int) -> None:
            self.done.append(f"role {role.value}")
            set_role(role, broker_id, epoch)

        async def apply_noted() -> None:
            self.done.append("apply")
            await apply()

        self.role.set, self.role.apply = set_noted, apply_noted  # type: ignore[method-assign]
        store: Any = SimpleNamespace(
            commit_log=SimpleNamespace(max_offset=500, min_offset=0),
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
            self.role, store, ha, client, replicas, EpochFile(str(folder), OsDisk()), self.changed
        )

    def note(self, what: str) -> Callable[[], None]:
        return lambda: self.done.append(what)

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
        f"follow {MASTER.replication}", "told",
    ]  # fmt: skip


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
