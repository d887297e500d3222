"""A slave stops following: afterwards nothing of its master is written or cut here."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pocketmq.broker.replication.auto_switch_frames import encode_master_handshake
from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epoch_slave import EpochMasterConnection
from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.replication.ha_client import HaClient
from pocketmq.broker.replication.rules import HaRules
from pocketmq.broker.store import OsDisk, PutStatus
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.signals import Signal
from support.eventually import eventually

MASTER = "127.0.0.1:10912"


class Master(asyncio.Protocol):
    """Tells its epochs to whoever connects."""

    def __init__(self, connected: list[Master]) -> None:
        self.received = b""
        self.is_gone = False
        connected.append(self)

    def connection_made(self, transport: Any) -> None:
        transport.write(encode_master_handshake(500, 1, [Epoch(1, 0)]))

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_gone = True


class SlowNetwork(MemoryNetwork):
    """Opens connections when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.may_dial = asyncio.Event()

    async def dial(
        self,
        address: str,
        protocol: asyncio.Protocol,
        *,
        timeout_s: float = 3.0,
        tls: bool = False,
        to_member: bool = True,
    ) -> None:
        await self.may_dial.wait()
        await super().dial(address, protocol, timeout_s=timeout_s, tls=tls, to_member=to_member)


class Slave:
    """An empty slave in controller mode, on a disk that flushes when it may."""

    def __init__(self, folder: Path) -> None:
        self.network = SlowNetwork()
        self.masters: list[Master] = []
        self.may_flush = asyncio.Event()
        self.is_flushing = False
        store: Any = SimpleNamespace(
            commit_log=SimpleNamespace(max_offset=0),
            shippable_offset=-1,
            flush=self._flush,
            grew=Signal(),
            replica=SimpleNamespace(is_following=True),
        )
        self.client = HaClient(
            store,
            self.network,
            ManualClock(0),
            HaRules(),
            partial(
                EpochMasterConnection,
                epochs=EpochFile(str(folder), OsDisk()),
                own_id=lambda: 2,
            ),
        )

    async def follow(self) -> None:
        await self.network.listen("127.0.0.1", 10912, lambda: Master(self.masters))
        await self.client.start()
        self.client.follow(MASTER)

    async def _flush(self) -> PutStatus:
        self.is_flushing = True
        await self.may_flush.wait()
        self.is_flushing = False
        return PutStatus.PUT_OK


@pytest.fixture
async def slave(tmp_path: Path) -> Slave:
    return Slave(tmp_path)


async def test_a_slave_has_stopped_when_its_disk_has(slave: Slave) -> None:
    slave.network.may_dial.set()
    await slave.follow()
    await eventually(lambda: slave.is_flushing, "the slave works at the master's handshake")
    slave.client.follow(None)
    stopping = asyncio.ensure_future(slave.client.stopped_following())
    await eventually(lambda: slave.masters[0].is_gone, "the connection is closed")
    assert not stopping.done(), "a cut may still be on its way to the disk"
    slave.may_flush.set()
    await stopping
    assert not slave.is_flushing
    await slave.client.stop()


async def test_a_connection_that_opens_too_late_is_not_used(slave: Slave) -> None:
    await slave.follow()
    await eventually(lambda: slave.client.connection is not None, "the slave connects")
    slave.client.follow(None)
    await slave.client.stopped_following()
    slave.network.may_dial.set()
    await eventually(lambda: slave.masters and slave.masters[0].is_gone, "it is closed again")
    assert not slave.masters[0].received
    assert not slave.is_flushing
    await slave.client.stop()
