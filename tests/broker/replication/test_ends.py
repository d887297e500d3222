"""The two ends of a replication connection, each with a transport that only notes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from broker.replication.test_bad_peers import Raw, dialled
from pocketmq.broker.replication.ha_client import MasterConnection
from pocketmq.broker.replication.ha_frames import encode_report
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.replication.slave_connection import SlaveConnection
from pocketmq.broker.role_names import BrokerRole
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.eventually import eventually
from support.replicas import ReplicaRig


class Noted:
    """A transport that notes what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closing_now = False

    def get_extra_info(self, _name: str) -> tuple[str, int]:
        return "127.0.0.1", 1

    def set_write_buffer_limits(self, high: int) -> None:
        assert high > 0

    def write(self, data: bytes) -> None:
        self.written += data

    def writelines(self, parts: list[bytes]) -> None:
        self.written += b"".join(parts)

    def is_closing(self) -> bool:
        return self.is_closing_now

    def abort(self) -> None:
        self.is_closing_now = True


class Master:
    """A master's end, with so many bytes of log."""

    def __init__(self, log_bytes: int) -> None:
        self.log_bytes = log_bytes
        files = SimpleNamespace(min_offset=0, file_size=1 << 30)
        log = SimpleNamespace(files=files, read=lambda _offset, size: bytes(size))
        store: Any = SimpleNamespace(commit_log=log, shippable_offset=log_bytes)
        transport: Any = Noted()
        self.store = store
        clock = ManualClock(0)
        self.connection = SlaveConnection(
            store, HaRules(), clock, lambda _: None, lambda: None, lambda _: None
        )
        self.connection.connection_made(transport)

    @property
    def sent_bytes(self) -> int:
        """Of the log."""
        return self.connection.link.sent_bytes


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await SystemClock().sleep(0)


async def test_a_long_log_is_sent_turn_by_turn_without_a_report_in_between() -> None:
    master = Master(5 << 20)
    master.connection.data_received(encode_report(1))
    await turns(1)
    assert 1 << 20 <= master.sent_bytes < 2 << 20, "others have their turn"
    await turns()
    assert master.sent_bytes == (5 << 20) - 1


async def test_what_waited_for_the_slave_to_read_is_sent_as_soon_as_it_does() -> None:
    master = Master(100)
    master.connection.data_received(encode_report(40))
    await turns()
    assert master.sent_bytes == 60
    master.connection.pause_writing()
    master.store.shippable_offset = 150
    master.connection.send_soon()
    await turns()
    assert master.sent_bytes == 60
    master.connection.resume_writing()
    await turns()
    assert master.sent_bytes == 110


async def test_a_slave_begins_when_its_log_is_flushed_and_reports_from_then_on() -> None:  # W-9
    clock, transport = ManualClock(0), Noted()
    store: Any = SimpleNamespace(commit_log=SimpleNamespace(max_offset=100), shippable_offset=40)
    slave = MasterConnection(store, HaRules(), clock)
    slave.connection_made(transport)  # type: ignore[arg-type]
    slave.flushed()
    slave.tick()
    assert transport.written == b""
    store.shippable_offset = 100
    slave.flushed()
    assert transport.written == encode_report(100)
    await clock.move_to(6_000)
    slave.tick()
    assert transport.written == 2 * encode_report(100)


async def test_a_slave_whose_master_came_late_leaves_it_when_it_falls_silent(
    tmp_path: Path,
) -> None:  # H-28
    made: list[Raw] = []

    def make() -> Raw:
        made.append(Raw())
        return made[-1]

    async with ReplicaRig(tmp_path) as rig:
        await rig.start(
            "slave", broker_role=BrokerRole.SLAVE, broker_id=1, ha_master_address="127.0.0.1:30000"
        )
        await rig.advance(3)  # its ticks rest by now
        await rig.network.listen("127.0.0.1", 30_000, make)
        await rig.advance(5)
        assert len(made) == 1
        assert not made[0].lost
        await rig.advance(22)
        assert made[0].lost


async def test_a_master_that_stops_leaves_no_connection_of_a_slave_open(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path) as rig:
        raw = await dialled(rig, await rig.start("master"))
        raw.say(encode_report(0))
        await rig.stop("master")
        await eventually(lambda: raw.lost, "it is closed")


async def test_a_master_looks_again_at_who_is_in_sync_when_a_slave_has_left(
    tmp_path: Path,
) -> None:
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        raw = await dialled(rig, master)
        slaves = master.subjects.replication.slaves
        await eventually(lambda: len(slaves.connections) == 1, "it is there")
        seen: list[int] = []
        slaves.acks_moved.connect(lambda: seen.append(len(slaves.connections)))
        assert raw.transport is not None
        raw.transport.close()
        await eventually(lambda: seen == [0], "its end is told, once it is out of the table")
