"""The master's port, the slave's connection and who waits for slaves, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.replication.test_ends import Noted, turns
from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.replication.ha_client import HaClient, MasterConnection
from pocketmq.broker.replication.ha_frames import encode_report
from pocketmq.broker.replication.ha_port import HaPort
from pocketmq.broker.replication.ha_service import HaService
from pocketmq.broker.replication.replicas import Replicas
from pocketmq.broker.replication.rules import AckRules, HaRules
from pocketmq.broker.replication.slave_connection import SlaveConnection
from pocketmq.broker.role import RoleState
from pocketmq.broker.role_names import BrokerRole
from pocketmq.broker.store import PutStatus
from pocketmq.protocol.budget import Budget
from pocketmq.protocol.errors import ConnectError
from pocketmq.protocol.transport.memory import MemoryNetwork
from pocketmq.runtime.errors import PortInUseError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.signals import Signal
from support.eventually import eventually
from support.own_logs import own_logs

MASTER, OTHER = "127.0.0.1:10912", "127.0.0.1:20912"
LOG_END = 100


def a_store() -> Any:
    files = SimpleNamespace(min_offset=0, file_size=1 << 30)
    log = SimpleNamespace(max_offset=LOG_END, files=files, read=lambda _at, size: bytes(size))
    return SimpleNamespace(commit_log=log, shippable_offset=LOG_END, grew=Signal())


# -- the master's port --------------------------------------------------------------------------


class Port:
    """The replication port of a broker; slaves are the test."""

    def __init__(
        self,
        role: BrokerRole = BrokerRole.SYNC_MASTER,
        *,
        network: MemoryNetwork | None = None,
        configured: int = 0,
    ) -> None:
        self.clock, self.store = ManualClock(0), a_store()
        self.role = RoleState(role, 0)
        self.service = HaService(
            self.store, self.role, network or MemoryNetwork(), self.clock, HaRules(),
            HaPort("127.0.0.1", BrokerAddress("127.0.0.1", 10911), configured, any_port=False),
            lambda: Budget(slaves=2),
        )  # fmt: skip
        self.moved = 0
        self.service.acks_moved.connect(self._count)

    def _count(self) -> None:
        self.moved += 1

    def slave(self) -> tuple[SlaveConnection, Noted]:
        """A slave connects."""
        connection, transport = self.service._accept(), Noted()
        connection.connection_made(transport)  # type: ignore[arg-type]
        return connection, transport


def noted(what: str, done: list[str], really: Callable[[], Awaitable[None]]) -> Any:
    async def step() -> None:
        done.append(what)
        await really()

    return step


async def test_a_port_that_stops_takes_nobody_before_the_others_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port, done = Port(), list[str]()
    service = port.service
    await service.stop()  # it has not begun
    await service.start()
    _, first = port.slave()
    listener = service._listener
    assert listener is not None
    close = listener.close

    async def close_late() -> None:
        _, late = port.slave()  # it was accepted just before
        assert late.is_closing()
        assert not first.is_closing()
        await close()

    monkeypatch.setattr(listener, "close", noted("port", done, close_late))
    stop_ticks = service._ticks.stop
    monkeypatch.setattr(service._ticks, "stop", noted("ticks", done, stop_ticks))
    await service.stop()
    assert done == ["port", "ticks"]
    assert first.is_closing()
    assert not service._ticks.running


async def test_a_port_that_is_taken_is_another_one_unless_it_was_asked_for() -> None:  # H-2
    network = MemoryNetwork()
    first, second = Port(network=network), Port(network=network)
    await first.service.start()
    await second.service.start()
    assert (first.service._where.port, second.service._where.port != 10912) == (10912, True)
    asked_for = Port(network=network, configured=10912)
    with pytest.raises(PortInUseError):
        await asked_for.service.start()
    for port in (first, second):
        await port.service.stop()


async def test_a_slave_has_no_place_at_another_slave_nor_in_a_full_port() -> None:  # H-2
    port = Port(BrokerRole.SLAVE)
    refused, transport = port.slave()
    assert (transport.is_closing(), port.service.connections) == (True, ())
    refused.connection_lost(None)
    assert port.moved == 0
    port.role.set(BrokerRole.SYNC_MASTER, 0, 1)
    places = [port.slave() for _ in range(3)]
    assert [transport.is_closing() for _, transport in places] == [False, False, True]
    assert port.moved == 2
    places[2][0].connection_lost(None)
    assert port.moved == 2, "it was never there"
    places[0][0].connection_lost(None)
    assert (port.moved, len(port.service.connections)) == (3, 1)


async def test_slaves_are_sent_what_the_log_grows_by() -> None:
    port = Port()
    slaves = [port.slave() for _ in range(2)]
    for connection, _ in slaves:
        connection.data_received(encode_report(LOG_END))
    await turns()
    assert [transport.written for _, transport in slaves] == [b"", b""]
    port.store.shippable_offset += 10
    port.store.grew.emit()
    await turns()
    assert [len(transport.written) for _, transport in slaves] == [12 + 10, 12 + 10]


# -- the slave's connection ---------------------------------------------------------------------


class Wire(Noted):
    """Ends in the loop's next turn, as a real one does."""

    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol

    def abort(self) -> None:
        super().abort()
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)


class Wires(MemoryNetwork):
    """Connects to the test, or to nobody while `refuses`."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses = False
        self.dialled: list[str] = []
        self.wires: list[Wire] = []

    async def dial(self, address: str, protocol: Any, **_: object) -> None:
        self.dialled.append(address)
        if self.refuses:
            raise ConnectError(address, "nobody listens")
        self.wires.append(Wire(protocol))
        protocol.connection_made(self.wires[-1])


class Client:
    """A slave's side; its master is the test."""

    def __init__(self) -> None:
        self.clock, self.network, self.store = ManualClock(0), Wires(), a_store()
        self.client = HaClient(self.store, self.network, self.clock, HaRules())

    async def following(self) -> MasterConnection:
        """It follows a master."""
        await self.client.start()
        await turns()  # it rests
        self.client.follow(MASTER)
        await eventually(lambda: self.client.is_connected, "it is connected")
        assert self.client.connection is not None
        return self.client.connection


async def test_who_follows_nobody_dials_nobody_and_has_no_timer() -> None:
    client = Client()
    with own_logs() as logs:
        await client.client.start()
        await turns(10)
        await client.clock.move_to(10_000)
        await client.client.stop()
    assert (client.network.dialled, logs) == ([], [])
    assert client.clock.next_deadline_ms() is None


async def test_the_same_master_is_left_as_it_is_and_another_one_is_followed_at_once() -> None:
    client = Client()
    first = await client.following()
    client.client.follow(MASTER)
    await turns()
    assert (client.client.connection, client.network.wires[-1].is_closing()) == (first, False)
    wire = client.network.wires[-1]
    client.client.follow(OTHER)
    assert wire.is_closing()
    await eventually(lambda: client.network.dialled == [MASTER, OTHER], "without a pause")
    await client.client.stop()


async def test_who_ends_following_notes_it_before_the_connection_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Who sees the end asks whether there is another master: else it would wait, or dial again.
    client = Client()
    connection = await client.following()
    seen: list[str | None] = []
    close = connection.close

    def closed(reason: str) -> None:
        seen.append(client.client.master)
        close(reason)

    monkeypatch.setattr(connection, "close", closed)
    client.client.follow(None)
    assert seen == [None]
    await turns(10)
    assert client.network.dialled == [MASTER]
    await client.client.stop()


async def test_a_client_that_stops_hangs_up_and_runs_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client()
    connection = await client.following()
    seen: list[str | None] = []
    close = connection.close

    def closed(reason: str) -> None:
        seen.append(client.client.master)
        close(reason)

    monkeypatch.setattr(connection, "close", closed)
    await client.client.stop()
    assert seen == [None]
    assert client.network.wires[-1].is_closing()
    assert not client.client._attempts.running
    assert not client.client._ticks.running


async def test_a_master_that_is_there_now_is_dialled_without_the_pause() -> None:  # Z-9
    client = Client()
    client.network.refuses = True
    await client.client.start()
    client.client.follow(MASTER)
    await eventually(lambda: client.network.dialled == [MASTER], "it tries")
    client.network.refuses = False
    client.client.retry()
    await eventually(lambda: client.client.is_connected, "at once")
    client.client.retry()
    client.network.wires[-1].abort()
    await turns(20)
    assert client.network.dialled == [MASTER, MASTER], "it was connected: a pause"
    await client.client.stop()


async def test_what_is_flushed_is_reported_while_the_connection_is_open() -> None:  # W-9
    client = Client()
    await client.following()
    wire = client.network.wires[-1]
    assert wire.written == encode_report(LOG_END)
    client.store.shippable_offset += 10
    client.store.grew.emit()
    assert wire.written == encode_report(LOG_END) + encode_report(LOG_END + 10)
    await client.clock.move_to(7_000)
    assert wire.written.endswith(2 * encode_report(LOG_END + 10)), "its ticks run"
    wire.abort()
    client.store.shippable_offset += 10
    client.store.grew.emit()
    assert not wire.written.endswith(encode_report(LOG_END + 20))
    await client.client.stop()


# -- who waits for slaves -----------------------------------------------------------------------


class Waits:
    """Producers that wait for slaves, which are the test."""

    def __init__(self, role: BrokerRole = BrokerRole.SYNC_MASTER, **rules: Any) -> None:
        self.clock, self.acks = ManualClock(0), list[int]()
        ha: Any = SimpleNamespace(acks=lambda: self.acks, acks_moved=Signal())
        self.moved: Signal[[]] = ha.acks_moved
        self.replicas = Replicas(ha, RoleState(role, 0), AckRules(**rules), self.clock)
        self.heard: list[PutStatus] = []

    def put(self, end: int) -> None:
        self.replicas.when_replicated(end, self.heard.append)


@pytest.mark.parametrize(
    ("role", "rules", "waits"),
    [
        (BrokerRole.SYNC_MASTER, {"in_sync_replicas": 2}, True),
        (BrokerRole.SYNC_MASTER, {"in_sync_replicas": 1}, False),
        (BrokerRole.SYNC_MASTER, {"refuse_without_slave": True}, True),
        (BrokerRole.ASYNC_MASTER, {"in_sync_replicas": 2}, False),
        (BrokerRole.SLAVE, {"in_sync_replicas": 2}, False),
    ],
)
async def test_who_waits(role: BrokerRole, rules: dict[str, Any], *, waits: bool) -> None:
    waiting = Waits(role, **rules)  # B-141, B-143
    assert waiting.replicas.must_wait is waits
    waiting.acks = [0]
    waiting.put(100)
    assert waiting.heard == ([] if waits else [PutStatus.PUT_OK])


async def test_who_waits_hears_of_the_slave_or_of_the_end_of_the_time() -> None:
    waiting = Waits(in_sync_replicas=2, timeout_s=3.0)
    waiting.acks = [0]
    waiting.moved.emit()
    waiting.put(100)
    await waiting.clock.move_to(1_000)
    waiting.put(200)
    waiting.acks = [100]
    waiting.moved.emit()
    assert waiting.heard == [PutStatus.PUT_OK]
    await waiting.clock.move_to(3_999)
    assert waiting.heard == [PutStatus.PUT_OK]
    await waiting.clock.move_to(4_000)
    assert waiting.heard == [PutStatus.PUT_OK, PutStatus.FLUSH_SLAVE_TIMEOUT]
    assert waiting.clock.next_deadline_ms() is None
    waiting.put(300)
    waiting.acks = [300]
    await waiting.clock.move_to(7_000)
    assert waiting.heard[2:] == [PutStatus.PUT_OK], "it is told so at the end of its time"
