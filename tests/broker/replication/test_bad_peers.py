"""What speaks on the replication port and should not, or not so; and peers that fall silent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from pocketmq.broker.replication.ha_frames import encode_head, encode_report
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.server import Broker
from pocketmq.protocol.budget import Budget
from support.eventually import eventually
from support.replicas import ReplicaRig, log_of


class Raw(asyncio.Protocol):
    """The other end of a replication connection."""

    def __init__(self) -> None:
        self.heard = b""
        self.transport: asyncio.Transport | None = None
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)


async def dialled(rig: ReplicaRig, master: Broker) -> Raw:
    raw = Raw()
    await rig.network.dial(str(master.subjects.replication.port), raw)
    return raw


async def slave_of(rig: ReplicaRig, made: list[Raw]) -> Broker:
    """A slave whose master is the test."""

    def make() -> Raw:
        made.append(Raw())
        return made[-1]

    await rig.network.listen("127.0.0.1", 30_000, make)
    slave = await rig.start(
        "slave",
        broker_role=BrokerRole.SLAVE,
        broker_id=1,
        ha_master_address="127.0.0.1:30000",
    )
    await eventually(lambda: made and made[0].heard, "the slave has reported")
    return slave


@pytest.mark.parametrize(
    "said", [b"GET / HTTP/1.1\r\n\r\n\r\n\r\n", encode_report(1 << 50), b"\xff" * 8]
)
async def test_other_bytes_than_a_slaves_end_the_connection(said: bytes, tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        await (await rig.voice(master)).send("orders", b"x")
        raw = await dialled(rig, master)
        raw.say(said)
        await eventually(lambda: raw.lost, "it is closed")
        assert raw.heard == b"", "nothing of the log was sent"
        assert not master.subjects.replication.slaves.connections


async def test_half_a_report_waits_and_silence_ends_the_connection(tmp_path: Path) -> None:
    # H-30, H-34
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        sent = await (await rig.voice(master)).send("orders", b"x")
        raw = await dialled(rig, master)
        raw.say(encode_report(0)[:5])
        await rig.advance(1)
        assert raw.heard == b""
        raw.say(encode_report(0)[5:])
        await eventually(lambda: raw.heard, "the log comes")
        assert raw.heard == encode_head(0, len(log_of(master.store))) + log_of(master.store)
        await rig.advance(8)
        heartbeat = encode_head(len(log_of(master.store)), 0)
        assert raw.heard.endswith(heartbeat)  # H-37
        await rig.advance(14)
        assert raw.lost
        assert sent.queue_offset == 0


async def test_strangers_that_hold_every_place_are_dropped_and_a_slave_follows(
    tmp_path: Path,
) -> None:  # H-34
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        await (await rig.voice(master)).send("orders", b"x")
        strangers = [await dialled(rig, master) for _ in range(64)]
        one_more = await dialled(rig, master)
        await eventually(lambda: one_more.lost, "there is no place for another")
        slave = await rig.start("slave", broker_role=BrokerRole.SLAVE, broker_id=1)
        await rig.advance(15)
        assert not any(stranger.lost for stranger in strangers)
        assert log_of(slave.store) == b"", "a slave finds none either"
        await rig.advance(10)
        assert all(stranger.lost for stranger in strangers)
        await rig.same_logs()
        assert len(master.subjects.replication.slaves.connections) == 1


async def test_slaves_have_as_many_places_as_the_budget_says(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master", budget=Budget(slaves=1))
        first, second = await dialled(rig, master), await dialled(rig, master)
        await eventually(lambda: second.lost, "there is no place for another")
        assert not first.lost
        assert len(master.subjects.replication.slaves.connections) == 1


@pytest.mark.parametrize(
    "said",
    [
        encode_head(77, 4) + b"hole",
        encode_head(77, 0),
        encode_head(0, -3),
        encode_head(0, 1 << 30),
        b"HTTP/1.1 400 Bad Request\r\n",
    ],
)
async def test_a_frame_that_does_not_continue_the_log_changes_nothing(
    said: bytes, tmp_path: Path
) -> None:  # H-25, I-4
    made: list[Raw] = []
    async with ReplicaRig(tmp_path) as rig:
        slave = await slave_of(rig, made)
        made[0].say(encode_head(0, 10) + b"0123456789")
        await eventually(lambda: slave.store.commit_log.max_offset == 10, "it is appended")
        made[0].say(said)
        await eventually(lambda: made[0].lost, "the slave hangs up")
        assert log_of(slave.store) == b"0123456789"
        await rig.advance(6)
        assert len(made) == 2, "it comes again after 5 s (H-22)"
        assert made[1].heard == encode_report(10)


async def test_a_frame_in_pieces_is_appended_when_it_is_whole(tmp_path: Path) -> None:
    made: list[Raw] = []
    async with ReplicaRig(tmp_path) as rig:
        slave = await slave_of(rig, made)
        data = encode_head(0, 10) + b"0123456789"
        for at in range(len(data)):
            assert slave.store.commit_log.max_offset == 0
            made[0].say(data[at : at + 1])
            await rig.advance(0.1)
        assert log_of(slave.store) == b"0123456789"
        assert made[0].heard.endswith(encode_report(10))


async def test_a_slave_leaves_a_silent_master_and_comes_again(tmp_path: Path) -> None:
    # H-28, F-4
    made: list[Raw] = []
    async with ReplicaRig(tmp_path) as rig:
        await slave_of(rig, made)
        await rig.advance(19)
        assert not made[0].lost
        await rig.advance(3)
        assert made[0].lost
        await rig.advance(6)
        assert len(made) == 2


async def test_two_slaves_of_one_id_both_follow(tmp_path: Path) -> None:
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        for name in ("one", "two"):
            await rig.start(name, broker_role=BrokerRole.SLAVE, broker_id=1)
        await (await rig.voice(master)).send("orders", b"x")
        await rig.same_logs()
        assert len(master.subjects.replication.slaves.connections) == 2


async def test_a_wiped_slave_begins_with_the_last_file(tmp_path: Path) -> None:  # B-132, B-138
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master")
        voice = await rig.voice(master)
        for n in range(300):
            await voice.send("orders", b"%d" % n * 500)
        last = master.store.commit_log.files.files[-1]
        assert last.start > 0
        slave = await rig.start("slave", broker_role=BrokerRole.SLAVE, broker_id=1)
        await rig.advance(1)
        assert slave.store.commit_log.min_offset == last.start
        assert log_of(slave.store) == bytes(last.view()[: last.wrote])
