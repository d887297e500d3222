"""A master and its slaves on one loop, a memory network and a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.replication.role_changes import MasterAddresses
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.server import Broker
from pocketmq.broker.store import OsDisk
from pocketmq.broker.transactions.check_service import GROUP as CHECKS
from pocketmq.protocol.bodies.offsets import DelayOffsetTable
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.headers.offsets import GetAllDelayOffsetRequestHeader
from pocketmq.protocol.headers.timers import RecallMessageRequestHeader
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.validation import HALF_TOPIC
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.runtime.errors import ConfigError, DiskError, PortInUseError
from support.eventually import eventually
from support.replicas import ReplicaRig, log_of

SLAVE = BrokerRole.SLAVE


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ReplicaRig]:
    async with ReplicaRig(tmp_path) as made:
        yield made


async def master_and_slave(rig: ReplicaRig) -> tuple[Broker, Broker]:
    """Both have one message."""
    master = await rig.start("master")
    slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
    await (await rig.voice(master)).send("orders", b"to a")
    await rig.same_logs()
    return master, slave


async def test_a_slave_gets_the_masters_log_byte_by_byte(
    rig: ReplicaRig,
) -> None:  # behaviour 42: B-122, B-130
    master = await rig.start("master")
    slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
    voice = await rig.voice(master)
    for n in range(200):
        await voice.send("orders", b"message %d" % n * 20)
    await rig.same_logs()
    assert log_of(slave.store) == log_of(master.store)
    assert (
        slave.store.reads.max_offset("orders", 0) == master.store.reads.max_offset("orders", 0) > 0
    )
    (connection,) = master.subjects.replication.slaves.connections
    await eventually(
        lambda: connection.link.acked == master.store.commit_log.max_offset, "all is acknowledged"
    )


async def test_a_slave_that_comes_late_or_back_catches_up(rig: ReplicaRig) -> None:
    master = await rig.start("master")
    voice = await rig.voice(master)
    for n in range(100):
        await voice.send("orders", b"early %d" % n)
    await rig.start("slave", broker_role=SLAVE, broker_id=1)
    await rig.same_logs()
    await rig.stop("slave")
    for n in range(1000):
        await voice.send("orders", b"meanwhile %d" % n)
    await rig.start("slave", broker_role=SLAVE, broker_id=1)
    await rig.same_logs()


async def test_a_slave_refuses_sends(rig: ReplicaRig) -> None:  # H-3
    slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
    reply = await (await rig.voice(slave)).try_send("orders", b"x")
    assert reply.code == ResponseCode.SYSTEM_BUSY


async def test_a_slave_decides_no_transaction_and_recalls_nothing(
    rig: ReplicaRig,
) -> None:  # B-101, H-15, R-31
    slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
    voice = await rig.voice(slave)
    for outcome in (
        MessageSysFlag.TRANSACTION_COMMIT,
        MessageSysFlag.TRANSACTION_ROLLBACK,
    ):
        reply = await voice.ask(
            EndTransactionRequestHeader(
                producer_group="writers",
                tran_state_table_offset=0,
                commit_log_offset=0,
                commit_or_rollback=outcome,
                msg_id="",
            )
        )
        assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    reply = await voice.ask(RecallMessageRequestHeader(topic="orders", recall_handle="any"))
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_slaves_are_not_told_of_deliveries_that_they_lack(rig: ReplicaRig) -> None:
    # B-94, B-120: one of them may be elected, and would not deliver them again
    master = await rig.start("master", broker_role=BrokerRole.SYNC_MASTER, in_sync_replicas=2)
    voice = await rig.voice(master)

    async def told() -> int:
        reply = await voice.ask(GetAllDelayOffsetRequestHeader())
        table = decode_body(reply.body_view, DelayOffsetTable, reply.encoding)
        return table.offset_table.get(1, 0)

    sending = asyncio.ensure_future(voice.try_send("orders", b"late", properties={"DELAY": "1"}))
    await rig.advance(20)
    await sending
    assert master.planner.wrapper().offset_table[1] == 1, "it is delivered, and noted on the disk"
    assert await told() == 0
    await rig.start("slave", broker_role=SLAVE, broker_id=1)
    await rig.same_logs()
    for _ in range(50):
        if await told() == 1:
            return
        await rig.advance(0.1)
    raise AssertionError("the slave has the copy, and is not told so")


async def test_progress_of_transaction_checks_waits_for_the_slave(rig: ReplicaRig) -> None:
    # slaves copy it, and one that has no half message that was stored again would pass it
    master = await rig.start("master", broker_role=BrokerRole.SYNC_MASTER, in_sync_replicas=2)
    voice = await rig.voice(master)
    sending = asyncio.ensure_future(
        voice.try_send(
            "orders",
            b"half",
            properties={
                names.TRANSACTION_PREPARED: "true",
                names.PRODUCER_GROUP: "writers",
                names.UNIQ_KEY: "key",
            },
            sys_flag=MessageSysFlag.TRANSACTION_PREPARED,
            born_timestamp=rig.clock.time_ms(),
        )
    )

    def noted() -> int:
        return master.offsets.query(CHECKS, HALF_TOPIC, 0) or 0

    await rig.advance(50)
    await sending
    assert master.store.reads.max_offset(HALF_TOPIC, 0) > 1, "it was stored again, to be asked for"
    assert noted() == 0
    await rig.start("slave", broker_role=SLAVE, broker_id=1)
    await rig.same_logs()
    for _ in range(20):
        if noted() > 0:
            return
        await rig.advance(5)
    raise AssertionError("the slave has it, and the progress is not noted")


async def test_a_sync_master_answers_when_a_slave_has_the_message(rig: ReplicaRig) -> None:
    master = await rig.start("master", broker_role=BrokerRole.SYNC_MASTER, in_sync_replicas=2)
    voice = await rig.voice(master)
    waiting = asyncio.ensure_future(voice.try_send("orders", b"without a slave"))
    await rig.clock.move_to(rig.clock.time_ms() + 3_001)
    assert (await waiting).code == ResponseCode.FLUSH_SLAVE_TIMEOUT  # B-140, H-51
    slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
    await rig.same_logs()
    sent = await voice.send("orders", b"with one")
    assert slave.store.commit_log.max_offset == master.store.commit_log.max_offset
    assert sent.queue_offset == 1
    reply = await voice.try_send("orders", b"who waits not", properties={"WAIT": "false"})
    assert reply.code == ResponseCode.SUCCESS


async def test_4_9_says_at_once_that_no_slave_is_there(tmp_path: Path) -> None:  # B-140
    async with ReplicaRig(tmp_path, profile="4.9") as rig:
        master = await rig.start("master", broker_role=BrokerRole.SYNC_MASTER)
        reply = await (await rig.voice(master)).try_send("orders", b"x")
        assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert master.store.reads.max_offset("orders", 0) == 1, "it is stored all the same"


async def test_a_slave_of_another_cluster_is_refused_and_keeps_its_log(rig: ReplicaRig) -> None:
    other = await rig.start("other")
    voice = await rig.voice(other)
    for n in range(50):
        await voice.send("orders", b"another cluster's %d" % n)
    await rig.stop("other")
    master = await rig.start("master")
    await (await rig.voice(master)).send("orders", b"one")
    slave = await rig.start("other", broker_role=SLAVE, broker_id=1)
    before = log_of(slave.store)
    await rig.advance(30)
    assert log_of(slave.store) == before  # H-32, W-3: never merged
    assert not master.subjects.replication.slaves.connections


async def test_masters_and_slaves_change_places(rig: ReplicaRig) -> None:
    a, b = await master_and_slave(rig)
    await a.subjects.replication.roles.become_slave(2, MasterAddresses(None, None), epoch=1)
    await b.subjects.replication.roles.become_master(epoch=1)
    a.subjects.replication.roles.master_told(b.address, str(b.subjects.replication.port))
    reply = await (await rig.voice(a)).try_send("orders", b"to a once more")
    assert reply.code == ResponseCode.SYSTEM_BUSY
    sent = await (await rig.voice(b)).send("orders", b"to b")
    assert sent.queue_offset == 1, "queue offsets go on where the old master stopped"
    await rig.same_logs()
    assert b.subjects.replication.roles.progress.epoch == 1
    with pytest.raises(ValueError, match="older"):
        await b.subjects.replication.roles.become_slave(1, MasterAddresses(None, None), epoch=0)


async def test_who_becomes_master_follows_nobody_that_is_named_meanwhile(
    rig: ReplicaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await master_and_slave(rig)
    roles, replica = b.subjects.replication.roles, b.store.replica
    lead = replica.lead

    async def told_meanwhile(*, is_confirmed: bool = True) -> None:
        stream = str(a.subjects.replication.port)
        b.core.signals.master_told.emit(a.address, stream)  # a name server that does not know yet
        roles.stream_told(stream)
        await lead(is_confirmed=is_confirmed)

    monkeypatch.setattr(replica, "lead", told_meanwhile)
    await roles.become_master(epoch=1)
    assert b.subjects.replication.client.master is None
    assert roles.master == MasterAddresses(None, None)
    await (await rig.voice(b)).send("orders", b"to b")
    before = log_of(b.store)
    await (await rig.voice(a)).send("orders", b"to a once more")
    await rig.advance(10)
    assert log_of(b.store) == before


async def test_who_cannot_write_its_epoch_follows_on(
    rig: ReplicaRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await master_and_slave(rig)
    roles = b.subjects.replication.roles

    async def fail(path: str, text: str) -> None:
        raise DiskError(path, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(b.core.disk, "write_text", fail)
        with pytest.raises(DiskError, match="epochFileCheckpoint"):
            await roles.become_master(epoch=1)
    assert b.store.replica.is_following
    reply = await (await rig.voice(b)).try_send("orders", b"to b")
    assert reply.code == ResponseCode.SYSTEM_BUSY
    assert roles.progress.epoch == -1, "no election counts what was not written"
    roles.master_told(a.address, str(a.subjects.replication.port))
    await (await rig.voice(a)).send("orders", b"to a once more")
    await rig.same_logs()
    await roles.become_master(epoch=1)
    await (await rig.voice(b)).send("orders", b"to b")
    assert (Path(b.store.root) / "epochFileCheckpoint").exists()


async def test_a_master_whose_log_lost_its_last_epoch_can_lead_again(rig: ReplicaRig) -> None:
    # H-134: the epoch file is synced at once; under ASYNC_FLUSH a power cut takes the log's end
    a = await rig.start("a", broker_role=SLAVE, broker_id=1)
    await a.subjects.replication.roles.become_master(epoch=1)
    await (await rig.voice(a)).send("orders", b"on the disk")
    end = a.store.commit_log.max_offset
    root = a.store.root
    await rig.stop("a")
    file = EpochFile(root, OsDisk())
    await file.load()
    await file.append(Epoch(2, end + 1000))
    a = await rig.start("a", broker_role=SLAVE, broker_id=1)
    roles = a.subjects.replication.roles
    assert roles.progress.epoch == 1, "nothing of epoch 2 is left to win an election with"
    await roles.become_master(epoch=3)
    assert list(roles.epochs.table.entries) == [Epoch(1, 0), Epoch(3, end)]
    await (await rig.voice(a)).send("orders", b"next")


async def test_services_of_a_master_do_not_run_on_a_slave(rig: ReplicaRig) -> None:  # H-4
    master = await rig.start("master")
    slave = await rig.start("slave", broker_role=SLAVE, broker_id=1)
    await (await rig.voice(master)).send("orders", b"later", properties={"DELAY": "1"})
    await rig.same_logs()
    await rig.advance(5)
    await rig.same_logs()
    assert (
        master.store.reads.max_offset("orders", 0) == slave.store.reads.max_offset("orders", 0) == 1
    )
    assert slave.subjects.delays.schedule.runs == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"broker_role": SLAVE}, "the id of a slave must be above 0"),
        ({"broker_id": 2}, "the id of a master must be 0"),
        ({"in_sync_replicas": 0}, "0 replicas"),
    ],
)
async def test_roles_and_ids_that_do_not_fit_are_refused(
    options: dict[str, Any], says: str, tmp_path: Path
) -> None:  # H-1
    async with ReplicaRig(tmp_path) as rig:
        with pytest.raises(ConfigError, match=says):
            await rig.start("broker", **options)


async def test_slaves_find_a_master_whose_usual_replication_port_is_taken(rig: ReplicaRig) -> None:
    await rig.network.listen("127.0.0.1", 10912, asyncio.Protocol)
    master = await rig.start("master", port=10911)
    await (await rig.voice(master)).send("orders", b"x")
    await rig.start("slave", broker_role=SLAVE, broker_id=1)
    await rig.same_logs()
    assert master.subjects.replication.slaves.connections


async def test_a_replication_port_that_was_asked_for_must_be_free(rig: ReplicaRig) -> None:
    await rig.network.listen("127.0.0.1", 20912, asyncio.Protocol)
    with pytest.raises(PortInUseError, match="port 20912 is taken"):
        await rig.start("b", port=20911, ha_listen_port=20912)
