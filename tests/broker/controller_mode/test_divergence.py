"""Two replicas and a controller on one loop: roles, sets, and a tail that nobody else has."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.replication.epoch_file import FILE_NAME
from pocketmq.broker.replication.epochs import Epoch, Epochs
from pocketmq.broker.replication.role_changes import LaterEpochError, MasterAddresses
from pocketmq.broker.server import Broker
from pocketmq.broker.store import OsDisk, PutStatus, StoredMessage
from pocketmq.broker.store.replica_log import FOLLOWING
from pocketmq.controller import Controller, ControllerConfig, ControllerSeams
from pocketmq.protocol.bodies.replication import HARuntimeInfo
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.replication import GetBrokerHAStatusRequestHeader
from support.controller_rig import MemoryFiles
from support.eventually import eventually
from support.replicas import ReplicaRig, log_of
from support.tiny_store import HOST


class PatientDisk(OsDisk):
    """Epochs are written while `writes` is set."""

    def __init__(self) -> None:
        self.writes = asyncio.Event()
        self.writes.set()
        self.was_asked = False

    async def write_text(self, path: str, text: str) -> None:
        if FILE_NAME in path and not self.writes.is_set():
            self.was_asked = True
            await self.writes.wait()
        await super().write_text(path, text)


class Pair:
    """The rig and its controller."""

    def __init__(self, rig: ReplicaRig, controller: Controller) -> None:
        self.rig = rig
        self.controller = controller

    async def start(self, name: str, port: int, **options: Any) -> Broker:
        return await self.rig.start(
            name,
            port=port,
            enable_controller_mode=True,
            controllers=[self.controller.address],
            **options,
        )

    async def until_in_sync(self, ids: set[int]) -> None:
        group = self.controller.consensus.replicas.groups["broker-a"]
        for _ in range(100):
            if group.in_sync == ids:
                return
            await self.rig.advance(0.5)
        raise AssertionError(f"in sync are {group.in_sync}")


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with ReplicaRig(tmp_path) as rig:
        config = ControllerConfig(port=9881, store_path=Path("/controller"))
        seams = ControllerSeams(rig.clock, rig.network, MemoryFiles())
        controller = Controller(config, seams)
        await controller.start()
        await rig.advance(6)
        yield Pair(rig, controller)
        for name in list(rig.brokers):
            await rig.stop(name)
        await controller.stop()


async def test_a_returning_master_cuts_what_nobody_else_has(pair: Pair) -> None:
    # behaviour 45: B-152, F-2, I-5
    rig = pair.rig
    a = await pair.start("a", 11000)
    b = await pair.start("b", 11100)
    voice = await rig.voice(a)
    for n in range(20):
        await voice.send("orders", b"both %d" % n)
    await pair.until_in_sync({1, 2})
    await rig.same_logs()
    link = b.subjects.replication.client.connection
    assert link is not None
    assert link._transport is not None
    link._transport.pause_reading()  # it hangs, and is in sync for 15 s more
    for n in range(5):
        await voice.send("orders", b"a alone %d" % n)
    assert len(log_of(a.store)) > len(log_of(b.store))
    await rig.stop("a")
    await rig.advance(3)
    await eventually(lambda: b.core.role.leads, "the slave has become master")
    voice = await rig.voice(b)
    for n in range(2):
        await voice.send("orders", b"b %d" % n)
    back = await pair.start("a", 11000)
    assert not back.core.role.leads
    await rig.same_logs()
    await pair.until_in_sync({1, 2})
    assert b"a alone" not in log_of(back.store)
    assert b"b 1" in log_of(back.store)
    tables = [each.subjects.replication.roles.epochs.table for each in (back, b)]
    assert tables[0].entries == tables[1].entries
    assert [entry.epoch for entry in tables[0].entries] == [1, 2]


async def test_a_broker_that_stops_ends_its_change_of_role_first(
    pair: Pair, tmp_path: Path
) -> None:
    rig, disk = pair.rig, PatientDisk()
    a = await pair.start("a", 11000)
    b = await pair.start("b", 11100, disk=disk)
    voice = await rig.voice(a)
    await voice.send("orders", b"both")
    await pair.until_in_sync({1, 2})
    disk.writes.clear()
    await rig.stop("a")
    # A notice tells the slave or its own poll, which time waits for until the disk writes.
    moving = asyncio.create_task(rig.advance(3))
    await eventually(lambda: disk.was_asked, "the slave, now elected, notes its epoch")
    stop = asyncio.create_task(rig.stop("b"))
    for _ in range(100):
        await rig.clock.sleep(0)
    assert not stop.done(), "it stops in the middle of the change"
    disk.writes.set()
    await stop
    await moving
    assert b.subjects.replication.roles.epochs.table.last_number == 2
    kept = Epochs.parse((tmp_path / "b" / FILE_NAME).read_text())
    assert [entry.epoch for entry in kept.entries] == [1, 2]


async def test_all_in_sync_have_a_message_before_it_is_acknowledged_and_seen(pair: Pair) -> None:
    rig = pair.rig  # H-52, H-144, I-6
    options = {"all_ack_in_sync_state_set": True, "min_in_sync_replicas": 2}
    a = await pair.start("a", 11000, **options)
    voice = await rig.voice(a)
    refused = await voice.try_send("orders", b"alone")
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE  # minInSyncReplicas
    b = await pair.start("b", 11100, **options)
    await pair.until_in_sync({1, 2})
    await rig.advance(2)
    sent = await voice.send("orders", b"both")
    assert sent.queue_offset == 0
    assert b"both" in log_of(b.store)
    assert a.store.reads.max_offset("orders", 0) == 1
    link = b.subjects.replication.client.connection
    assert link is not None
    assert link._transport is not None
    link._transport.pause_reading()
    await voice.try_send("orders", b"waits for nobody", properties={"WAIT": "false"})
    await rig.advance(1)
    assert a.store.reads.max_offset("orders", 0) == 1, "consumers do not see what b lacks"
    link._transport.resume_reading()
    await rig.advance(2)
    assert a.store.reads.max_offset("orders", 0) == 2


async def test_a_replica_whose_disk_was_wiped_begins_anew_under_another_id(
    pair: Pair, tmp_path: Path
) -> None:
    rig = pair.rig  # D-1, H-120
    a = await pair.start("a", 11000)
    await pair.start("b", 11100)
    voice = await rig.voice(a)
    for n in range(20):
        await voice.send("orders", b"message %d" % n)
    await pair.until_in_sync({1, 2})
    await rig.stop("b")
    shutil.rmtree(tmp_path / "b")
    empty = await pair.start("b", 11100)
    await pair.until_in_sync({1, 3})
    await rig.same_logs()
    assert b"message 0" in log_of(empty.store), "it has the whole log, not the last file only"


async def test_a_slave_of_another_history_is_left_as_it_is(pair: Pair, tmp_path: Path) -> None:
    rig = pair.rig  # H-112: no epoch in common, so nothing may be cut
    a = await pair.start("a", 11000)
    voice = await rig.voice(a)
    for n in range(20):
        await voice.send("orders", b"message %d" % n)
    b = await pair.start("b", 11100)
    await pair.until_in_sync({1, 2})
    await rig.stop("b")
    (tmp_path / "b" / "epochFileCheckpoint").write_text(Epochs([Epoch(9, 7)]).text())
    (tmp_path / "b" / "epochFileCheckpoint.bak").unlink(missing_ok=True)
    before = log_of(b.store)
    again = await pair.start("b", 11100)
    await voice.send("orders", b"one more")
    await rig.advance(20)
    link = again.subjects.replication.client.connection
    assert link is not None
    assert "have no epoch in common" in link.reason
    assert log_of(again.store) == before


async def test_a_log_that_this_broker_writes_is_not_cut_to_another_one(pair: Pair) -> None:
    rig = pair.rig
    a = await pair.start("a", 11000)
    voice = await rig.voice(a)
    await voice.send("orders", b"both")
    b = await pair.start("b", 11100)
    await pair.until_in_sync({1, 2})
    await rig.same_logs()
    await b.store.replica.lead()  # and its connection is open still
    tail = StoredMessage("orders", 0, b"of b alone" * 99, b"", 0, 0, 0, HOST, HOST)
    assert b.store.put_messages([tail])[0].status is PutStatus.PUT_OK
    before, epochs = log_of(b.store), b.subjects.replication.roles.epochs.table.text()
    await voice.send("orders", b"of a", properties={"WAIT": "false"})
    await rig.advance(10)
    link = b.subjects.replication.client.connection
    assert link is not None
    assert link.reason == "this broker follows no master"
    assert log_of(b.store) == before
    assert b.subjects.replication.roles.epochs.table.text() == epochs


async def test_controllers_that_are_behind_the_log_s_epoch_are_refused_and_healed(
    pair: Pair, tmp_path: Path
) -> None:
    rig = pair.rig  # W-5: a term from the future; epochs of the log would not rise any more
    a = await pair.start("a", 11000)
    await (await rig.voice(a)).send("orders", b"one")
    roles = a.subjects.replication.roles
    await roles.become_slave(1, MasterAddresses(None, None), 2)
    roles.epochs.table.append(Epoch(9, a.store.commit_log.max_offset))
    with pytest.raises(LaterEpochError, match="its log has epoch 9 already: start the controllers"):
        await roles.become_master(3)
    assert FOLLOWING in a.store.readiness.reasons, "nothing was changed"
    assert roles.epochs.table.last_number == 9
    await rig.stop("a")
    for name in ("brokerIdentity", "epochFileCheckpoint", "epochFileCheckpoint.bak"):  # as advised
        (tmp_path / "a" / name).unlink(missing_ok=True)
    pair.controller.consensus.replicas.groups.clear()  # they lost their data
    healed = await pair.start("a", 11000)
    assert healed.core.role.leads
    await (await rig.voice(healed)).send("orders", b"two")
    empty = await pair.start("b", 11100)
    await rig.same_logs()
    assert b"one" in log_of(empty.store)


async def test_who_is_in_sync_is_told_by_the_set_and_not_by_the_gap(pair: Pair) -> None:  # H-41
    rig = pair.rig
    a = await pair.start("a", 11000)
    b = await pair.start("b", 11100)
    voice = await rig.voice(a)
    await voice.send("orders", b"1")
    await pair.until_in_sync({1, 2})

    async def in_sync() -> int:
        reply = await voice.ask(GetBrokerHAStatusRequestHeader())
        return decode_body(reply.body_view, HARuntimeInfo, reply.encoding).in_sync_slave_nums

    assert await in_sync() == 1
    link = b.subjects.replication.client.connection
    assert link is not None
    assert link._transport is not None
    link._transport.pause_reading()
    await voice.send("orders", b"2")  # the slave lacks a few bytes, for too long
    await pair.until_in_sync({1})
    assert await in_sync() == 0
