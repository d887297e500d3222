"""The two ends of a controller's stream, step by step; store, epochs and transport only note."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.replication.test_ends import Noted, turns
from pocketmq.broker.replication.auto_switch_frames import (
    SlaveHandshake,
    encode_head,
    encode_master_handshake,
    encode_report,
    encode_slave_handshake,
)
from pocketmq.broker.replication.epoch_master import NO_EPOCH, EpochSlaveConnection
from pocketmq.broker.replication.epoch_slave import EpochMasterConnection
from pocketmq.broker.replication.epochs import Epoch, Epochs
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.store import PutStatus
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.eventually import eventually

MASTER_ID = 1
LOG_END, CONFIRMED = 1000, 700


def epochs(*entries: tuple[int, int]) -> Epochs:
    return Epochs(Epoch(*each) for each in entries)


# -- the master's end ---------------------------------------------------------------------------


class Sync:
    """Notes what a master hears of a slave."""

    own_id = MASTER_ID

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def connected(self, slave_id: int, _connection: object) -> None:
        self.said.append(("connected", slave_id))

    def gone(self, slave_id: int, _connection: object) -> None:
        self.said.append(("gone", slave_id))

    def reported(self, slave_id: int, _connection: object, offset: int, at: float) -> None:
        self.said.append((slave_id, offset, at))


class Master:
    """A master's end, whose slave is the test."""

    def __init__(self, table: Epochs) -> None:
        self.clock, self.sync, self.transport = ManualClock(0), Sync(), Noted()
        self.acks = 0
        files = SimpleNamespace(min_offset=0, file_size=1 << 30)
        self.log = SimpleNamespace(
            max_offset=LOG_END, files=files, read=lambda _offset, size: b"x" * size
        )
        store: Any = SimpleNamespace(
            commit_log=self.log, shippable_offset=LOG_END, confirmed_offset=CONFIRMED
        )
        self.store, sync = store, cast("Any", self.sync)
        self.connection = EpochSlaveConnection(
            store, HaRules(), self.clock, lambda _: None, self._acked, lambda _: None,
            epochs=lambda: table, sync=sync,
        )  # fmt: skip
        transport: Any = self.transport
        self.connection.connection_made(transport)

    def _acked(self) -> None:
        self.acks += 1

    async def hear(self, *messages: bytes) -> bytes:
        """What the master says to that."""
        self.transport.written = b""
        self.connection.data_received(b"".join(messages))
        await turns()
        return self.transport.written


HELLO = encode_slave_handshake(SlaveHandshake(2))


async def test_a_master_tells_its_epochs_and_sends_each_by_itself() -> None:  # H-120, H-122
    table = epochs((1, 0), (2, 600))
    master = Master(table)
    assert await master.hear(HELLO) == encode_master_handshake(LOG_END, 2, table.entries)
    first = encode_head(500, 100, Epoch(1, 0), CONFIRMED) + b"x" * 100
    second = encode_head(600, 400, Epoch(2, 600), CONFIRMED) + b"x" * 400
    assert await master.hear(encode_report(500)) == first + second


async def test_a_log_without_epochs_is_sent_as_epoch_0() -> None:  # H-116
    master = Master(epochs())
    await master.hear(HELLO)
    sent = encode_head(900, 100, NO_EPOCH, CONFIRMED) + b"x" * 100
    assert await master.hear(encode_report(900)) == sent


@pytest.mark.parametrize("slave_id", [-1, 0, MASTER_ID])
async def test_an_id_that_no_slave_may_have_ends_the_connection(slave_id: int) -> None:  # F-30
    master = Master(epochs((1, 0)))
    assert await master.hear(encode_slave_handshake(SlaveHandshake(slave_id))) == b""
    assert master.transport.is_closing()
    assert master.sync.said == []


async def test_a_report_of_nobody_ends_the_connection() -> None:
    master = Master(epochs((1, 0)))
    assert await master.hear(encode_report(500)) == b""
    assert master.transport.is_closing()
    master.connection.connection_lost(None)
    assert (master.sync.said, master.acks) == ([], 0)


async def test_reports_of_one_read_wake_who_waits_once_and_a_handshake_nobody() -> None:
    master = Master(epochs((1, 0)))
    await master.hear(HELLO)
    assert master.acks == 0
    await master.hear(encode_report(400), encode_report(500))
    assert master.acks == 1
    master.connection.connection_lost(None)
    assert master.sync.said == [
        ("connected", 2), (2, 400, 0.0), (2, 500, 0.0), ("gone", 2)
    ]  # fmt: skip


async def test_a_slave_has_caught_up_when_it_has_what_was_there_at_the_last_look() -> None:
    master = Master(epochs((1, 0)))  # H-153
    await master.hear(HELLO)
    heard = []
    for at_s, log_end, offset in (
        (10, 1000, 1000), (20, 1500, 1000), (30, 1600, 1400), (40, 2000, 1500), (50, 3000, 2000),
    ):  # fmt: skip
        await master.clock.move_to(at_s * 1000)
        master.log.max_offset = master.store.shippable_offset = log_end
        await master.hear(encode_report(offset))
        heard.append(master.sync.said[-1][2])
    assert heard == [10.0, 10.0, 0.0, 20.0, 40.0]


# -- the slave's end ----------------------------------------------------------------------------


class Wire(Noted):
    """Notes pauses among the other effects."""

    def __init__(self, done: list[str]) -> None:
        super().__init__()
        self._done = done

    def write(self, data: bytes) -> None:
        self._done.append(f"say {int.from_bytes(data[4:], 'big')}")

    def pause_reading(self) -> None:
        self._done.append("pause")

    def resume_reading(self) -> None:
        self._done.append("resume")


class Slave:
    """A slave's end, whose master is the test."""

    def __init__(self, table: Epochs, log_end: int, *, flushed: int | None = None) -> None:
        self.done: list[str] = []
        self.clock, self.transport = ManualClock(0), Wire(self.done)
        self.may_write = asyncio.Event()
        self.may_write.set()
        self.failure: Exception | None = None
        self.flush_status = PutStatus.PUT_OK
        self.log = SimpleNamespace(max_offset=log_end, min_offset=0)
        self.replica = SimpleNamespace(
            is_following=True, append=self._append, truncate=self._truncate
        )
        store: Any = SimpleNamespace(
            commit_log=self.log, replica=self.replica, flush=self._flush,
            shippable_offset=log_end if flushed is None else flushed,
            confirm=lambda offset: self.done.append(f"confirm {offset}"),
        )  # fmt: skip
        self.store, self.table = store, table
        noted: Any = SimpleNamespace(
            table=table, append=self._note_epoch, cut_suffix=self._cut_epochs
        )
        self.connection = EpochMasterConnection(
            store, HaRules(), self.clock, epochs=noted, own_id=lambda: 2
        )
        transport: Any = self.transport
        self.connection.connection_made(transport)
        assert self.done == ["say 2"], "it says who it is"
        self.done.clear()

    def _append(self, offset: int, body: bytes) -> None:
        self.done.append(f"append {offset}")
        self.log.max_offset = self.store.shippable_offset = offset + len(body)

    async def _truncate(self, offset: int) -> int:
        cut: int = self.log.max_offset - offset
        self.log.max_offset = offset
        self.done.append(f"cut log {offset}")
        return cut

    async def _cut_epochs(self, offset: int) -> None:
        self.done.append(f"cut epochs {offset}")

    async def _flush(self) -> PutStatus:
        self.done.append("flush")
        return self.flush_status

    async def _note_epoch(self, entry: Epoch, _log_min: int) -> None:
        self.done.append(f"note epoch {entry.epoch}")
        await self.may_write.wait()
        if self.failure is not None:
            raise self.failure
        self.table.append(entry)

    async def hear(self, *messages: bytes) -> list[str]:
        """What the slave does about that."""
        self.done.clear()
        self.connection.data_received(b"".join(messages))
        await turns(10)
        return list(self.done)


def told(*entries: tuple[int, int], log_end: int = LOG_END) -> bytes:
    table = epochs(*entries)
    return encode_master_handshake(log_end, table.last_number, table.entries)


def frame(offset: int, epoch: tuple[int, int], body: bytes = b"0123456789") -> bytes:
    return encode_head(offset, len(body), Epoch(*epoch), CONFIRMED) + body


async def test_a_slave_cuts_its_log_then_its_epochs_and_reports_what_is_on_the_disk() -> None:
    slave = Slave(epochs((1, 0), (2, 500)), 900, flushed=400)  # H-112, H-134, W-9
    assert await slave.hear(told((1, 0), (3, 500))) == [
        "pause", "cut log 500", "cut epochs 500", "flush", "say 500", "resume",
    ]  # fmt: skip


async def test_a_slave_whose_log_is_on_the_disk_flushes_nothing() -> None:
    slave = Slave(epochs((1, 0)), 900)
    assert "flush" not in await slave.hear(told((1, 0)))


async def test_a_slave_that_cannot_flush_acknowledges_nothing() -> None:
    slave = Slave(epochs((1, 0)), 900, flushed=400)
    slave.flush_status = PutStatus.FLUSH_DISK_TIMEOUT
    assert "say 900" not in await slave.hear(told((1, 0)))
    assert slave.transport.is_closing()


@pytest.mark.parametrize("table", [(), ((2, 900),)], ids=["none", "nothing written in it"])
async def test_a_log_without_epochs_is_not_cut(table: tuple[tuple[int, int], ...]) -> None:
    slave = Slave(epochs(*table), 900)  # H-116, W-5
    assert await slave.hear(told((3, 900))) == ["pause", "cut epochs 900", "say 900", "resume"]


async def test_a_log_of_another_history_is_left_as_it_is() -> None:
    slave = Slave(epochs((9, 7)), 900)
    assert await slave.hear(told((1, 0))) == ["pause", "resume"]
    assert slave.transport.is_closing()


async def test_an_epoch_is_on_the_disk_before_its_first_byte_is_taken() -> None:  # F-8
    slave = Slave(epochs((1, 0)), 900)
    await slave.hear(told((1, 0)))
    slave.may_write.clear()
    new = (3, 900)
    assert await slave.hear(frame(900, new), frame(910, new)) == ["pause", "note epoch 3"]
    slave.done.clear()
    slave.may_write.set()
    await turns(10)
    assert slave.done == [
        "resume", "append 900", f"confirm {CONFIRMED}", "append 910", f"confirm {CONFIRMED}",
        "say 920",
    ]  # fmt: skip
    assert await slave.hear(frame(920, new, b"")) == [f"confirm {CONFIRMED}"], "a heartbeat"


async def test_an_epoch_that_could_not_be_noted_ends_the_connection() -> None:
    slave = Slave(epochs((1, 0)), 900)
    await slave.hear(told((1, 0)))
    slave.failure = DiskError("epochs", "no space")
    assert await slave.hear(frame(900, (3, 900))) == ["pause", "note epoch 3", "resume"]
    assert slave.transport.is_closing()
    assert slave.connection.reason == str(slave.failure)


@pytest.mark.parametrize("following", [True, False])
async def test_frames_that_no_handshake_came_before_or_that_nobody_wants_change_nothing(
    following: bool,
) -> None:
    slave = Slave(epochs((1, 0)), 900)
    if not following:
        await slave.hear(told((1, 0)))
    slave.replica.is_following = following
    assert await slave.hear(frame(900, (1, 0))) == []
    assert slave.transport.is_closing()


async def test_other_bytes_than_a_masters_end_the_connection() -> None:
    slave = Slave(epochs((1, 0)), 900)
    await slave.hear(b"HTTP/1.1 400 Bad Request\r\n")
    assert slave.transport.is_closing()


async def test_a_connection_that_is_lost_during_work_at_the_disk_has_ended_after_it() -> None:
    slave = Slave(epochs((1, 0)), 900)
    await slave.hear(told((1, 0)))
    slave.may_write.clear()
    await slave.hear(frame(900, (3, 900)))
    slave.connection.connection_lost(None)
    await turns()
    assert not slave.connection.closed.done()
    slave.done.clear()
    slave.may_write.set()
    await eventually(slave.connection.closed.done, "its work has ended")
    assert slave.done == [], "the frame came from a master that is gone"


async def test_a_connection_that_is_lost_at_rest_has_ended() -> None:
    slave = Slave(epochs((1, 0)), 900)
    slave.connection.connection_lost(None)
    assert slave.connection.closed.done()


async def test_a_slave_reports_nothing_before_the_handshake_and_leaves_who_does_not_answer() -> (
    None
):
    slave = Slave(epochs((1, 0)), 900)
    await slave.clock.move_to(19_000)
    slave.connection.tick()
    slave.connection.flushed()
    assert (slave.done, slave.transport.is_closing()) == ([], False)
    await slave.clock.move_to(21_000)
    slave.connection.tick()
    assert slave.transport.is_closing()
    assert slave.connection.reason == "no answer to the handshake"


async def test_a_slave_reports_now_and_then_and_what_was_flushed_later() -> None:  # H-24, W-9
    slave = Slave(epochs((1, 0)), 900)
    await slave.hear(told((1, 0)))
    slave.done.clear()
    slave.store.shippable_offset = 950
    slave.connection.flushed()
    assert slave.done == ["say 950"]
    await slave.clock.move_to(6_000)
    slave.connection.tick()
    assert slave.done == ["say 950", "say 950"]
