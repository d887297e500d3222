"""Events of roles and client processes that come and go while they are asked stay in order."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import cast

import pytest

from pocketmq.cluster.steering.role_events import ClientEvents, RoleEvents
from pocketmq.cluster.steering.roles import Roles
from pocketmq.operation.control.processor import ControlProcessor, real_us
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.log import EventLog
from pocketmq.operation.events.roles import ClockMoved
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.clock import SystemClock


@dataclass
class ClientProcesses:
    """What `RoleEvents` asks of its roles: here there are client processes only."""

    credentials = None
    client_tls = None
    network = TcpNetwork()

    clients: dict[str, str] = field(default_factory=dict)
    starting: set[str] = field(default_factory=set)
    names: tuple[str, ...] = ()
    addresses: dict[str, str] = field(default_factory=dict)

    def state(self, name: str) -> str:
        return "ended"


class Told:
    """A process that tells events, at an address of its own."""

    def __init__(self, by: str, clock: SystemClock) -> None:
        self._log = EventLog(by, clock.time_ms, real_us, always=True)
        self.dispatcher = Dispatcher()
        self.dispatcher.add(ControlProcessor(clock, dict, self._log))

    def tell(self) -> None:
        self._log.emit(ClockMoved(*self._log.stamp(), from_ms=0))


@pytest.fixture
async def served() -> AsyncIterator[tuple[Told, Told, dict[str, str]]]:
    clock, network = SystemClock(), TcpNetwork()
    one, two = Told("one", clock), Told("two", clock)
    listeners = [await network.serve("127.0.0.1", 0, each.dispatcher) for each in (one, two)]
    addresses = {
        name: f"127.0.0.1:{each.port}" for name, each in zip(("one", "two"), listeners, strict=True)
    }
    yield one, two, addresses
    for listener in listeners:
        await listener.close()


async def told_by(events: RoleEvents) -> list[Event]:
    return [each for each in await events.fetch() if each.by in ("one", "two")]


async def test_what_a_process_tells_before_it_is_seen_to_start_comes_first(
    served: tuple[Told, Told, dict[str, str]],
) -> None:
    one, two, addresses = served
    clock, processes = SystemClock(), ClientProcesses({"one": addresses["one"]})
    own = EventLog("cluster", clock.time_ms, real_us, samples=False)
    async with RoleEvents(cast("Roles", processes), ClientEvents(lambda: True), own) as events:
        one.tell()
        assert [each.by for each in await told_by(events)] == ["one"]
        two.tell()  # it runs, and its ready line has not been read
        one.tell()
        processes.starting = {"two"}
        found = await told_by(events)
        processes.starting, processes.clients = set(), addresses
        while len(found) < 2:
            found += await told_by(events)
        assert [each.by for each in found] == ["two", "one"]


async def test_a_process_that_comes_while_others_are_asked_is_waited_for(
    served: tuple[Told, Told, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, addresses = served
    clock, processes = SystemClock(), ClientProcesses({"one": addresses["one"]})
    own = EventLog("cluster", clock.time_ms, real_us, samples=False)
    ask = RoleEvents._ask

    async def comes_meanwhile(
        self: RoleEvents, name: str, address: str, *, is_client: bool
    ) -> list[Event]:
        if "two" not in processes.clients:
            two.tell()
            one.tell()
            processes.clients = addresses
        return await ask(self, name, address, is_client=is_client)

    monkeypatch.setattr(RoleEvents, "_ask", comes_meanwhile)
    async with RoleEvents(cast("Roles", processes), ClientEvents(lambda: True), own) as events:
        found = await told_by(events)
        while len(found) < 2:
            found += await told_by(events)
        assert [each.by for each in found] == ["two", "one"]
