"""What parts of the proxy hold, count and give back; brokers and streams are the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("grpc")

from pocketmq.protocol.budget import default_budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import RequestTimeoutError
from pocketmq.protocol.headers.access import GetUserRequestHeader
from pocketmq.protocol.releases import known_in
from pocketmq.protocol.signing import ACCESS_KEY
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.consuming.receiving import Handed, Receiving
from pocketmq.proxy.consuming.renewing import Renewing
from pocketmq.proxy.edge import brokers as edge
from pocketmq.proxy.edge import telemetry
from pocketmq.proxy.edge.consuming import Consuming
from pocketmq.proxy.edge.kept import EXPIRE_S, REFRESH_S, Kept
from pocketmq.proxy.edge.tools_door import MOST_ASKED, MOST_OF_ONE, ToolsDoor
from pocketmq.proxy.handles.held import Held
from pocketmq.proxy.handles.receipts import Receipt
from pocketmq.runtime.errors import PeerError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.tasks import TaskOwner
from support.broker_rig import FakePeer
from support.eventually import eventually

START_MS = 1_700_000_000_000
TEXT = f"0 {START_MS} 60000 0 0 broker-a 0 7 0"


# -- answers that are kept ----------------------------------------------------------------------


async def test_while_one_asks_anew_the_others_go_on_with_the_old_answer() -> None:  # G-54
    clock, answers = ManualClock(0), asyncio.Queue[str]()
    asked: list[str] = []

    async def load(name: str) -> str:
        asked.append(name)
        answer = await answers.get()
        if answer == "away":
            raise PeerError("it is away")
        return answer

    kept = Kept(clock, load)
    answers.put_nowait("first")
    assert await kept.get("T") == "first"
    await clock.move_to(round(REFRESH_S * 1000))
    asking = asyncio.create_task(kept.get("T"))
    await eventually(lambda: len(asked) == 2, "it asks anew")
    assert await kept.get("T") == "first"
    assert len(asked) == 2, "one asks"
    answers.put_nowait("away")
    assert await asking == "first", "the old one is used while nobody answers"
    answers.put_nowait("second")
    assert await kept.get("T") == "second", "and the next caller asks again"
    await clock.move_to(round((REFRESH_S + EXPIRE_S) * 1000))
    answers.put_nowait("away")
    with pytest.raises(PeerError):
        await kept.get("T")


# -- brokers that do not answer -----------------------------------------------------------------


class FrozenApi:
    """Calls of brokers by address: those in `frozen` hold each for as long as it may wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self.frozen: set[str] = set()
        self.asked: list[str] = []

    async def call(self, address: str, _header: object, *, timeout_s: float) -> str:
        self.asked.append(address)
        if address in self.frozen:
            self.now += timeout_s
            raise RequestTimeoutError(address, "AUTH_GET_USER", round(timeout_s * 1000))
        return address


async def test_a_broker_that_did_not_answer_is_asked_last() -> None:
    api = FrozenApi()
    instance: Any = SimpleNamespace(clock=ManualClock(0), api=api)
    brokers = edge.Brokers(instance, real_time=lambda: api.now)

    async def cluster(_name: str) -> Any:
        of = {name: SimpleNamespace(broker_addrs={0: name, 1: f"{name}s"}) for name in "abc"}
        return SimpleNamespace(broker_addr_table=of)

    brokers._cluster = Kept(ManualClock(0), cluster)

    async def ask() -> list[str]:
        api.asked.clear()
        await brokers.ask_any(GetUserRequestHeader(username="shop"), slaves=True)
        return list(api.asked)

    api.frozen = {"a"}
    assert await ask() == ["a", "b"]
    assert await ask() == ["b"], "it is known now"
    api.frozen = {"b", "c", "as", "bs", "cs"}
    with pytest.raises(RequestTimeoutError):
        await ask()
    assert api.asked == ["b", "c"], "the whole is bounded"
    with pytest.raises(RequestTimeoutError):
        await ask()
    assert api.asked == ["as", "bs"]
    assert await ask() == ["cs", "a"], "one that was silent is better than none"
    assert await ask() == ["a"], "it has answered"
    api.frozen = {"a"}
    assert await ask() == ["a", "b"]
    assert await ask() == ["b"]
    api.now += edge.SILENT_S
    assert await ask() == ["a", "b"], "after a while it is tried again"


# -- the port for tools -------------------------------------------------------------------------


async def test_requests_that_wait_for_brokers_are_bounded_for_each_peer_and_in_all() -> None:
    told = asyncio.Event()

    async def nobody(_name: str) -> None:
        await told.wait()

    accounts: Any = SimpleNamespace(user=nobody)
    request = Command(RequestCode.GET_BROKER_RUNTIME_INFO, {ACCESS_KEY: "new"})

    def busy(peer: FakePeer) -> bool:
        reply: Any = door.process(peer, request)  # type: ignore[arg-type]
        assert reply is None or reply.code == ResponseCode.SYSTEM_BUSY
        return reply is not None

    async with TaskOwner("asks") as tasks:
        door = ToolsDoor(accounts, None, tasks, default_budget, known_in((5, 3, 3)))
        first = FakePeer()
        assert [busy(first) for _ in range(MOST_OF_ONE + 1)] == [False] * MOST_OF_ONE + [True]
        others = [FakePeer() for _ in range(MOST_ASKED - MOST_OF_ONE)]
        assert not any(busy(peer) for peer in others)
        assert busy(FakePeer()), "of all together"
        told.set()
        await eventually(lambda: len(first.replies) == MOST_OF_ONE, "they are answered")
        assert not busy(first)
        await eventually(lambda: not door._asked, "no peer is kept")


# -- commands of a stream -----------------------------------------------------------------------


async def test_what_a_client_has_read_makes_room_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "MOST_WAITING_BYTES", 10)
    reads, written = asyncio.Event(), list[str]()

    class Context:
        def peer(self) -> str:
            return "a client"

        async def write(self, command: Any) -> None:
            await reads.wait()
            written.append(command.name)

    def command(name: str) -> Any:
        return SimpleNamespace(name=name, ByteSize=lambda: 6)

    outbox = telemetry._Outbox(Context())
    writer = asyncio.create_task(outbox.run())
    for name in ("a", "too much"):
        outbox.put(command(name))
    reads.set()
    await eventually(lambda: written == ["a"], "it is read")
    await eventually(lambda: outbox._waiting_bytes == 0, "nothing waits")
    outbox.put(command("b"))
    await eventually(lambda: written == ["a", "b"], "the next one is")
    writer.cancel()


# -- handles ------------------------------------------------------------------------------------


class Brokers:
    """In place of the requests to brokers."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.may_renew = asyncio.Event()
        self.pops: Callable[[], Awaitable[Any]] | None = None

    async def change(self, receipt: Receipt, _topic: str, _group: str, ms: int) -> Receipt:
        self.done.append("renew")
        await self.may_renew.wait()
        return receipt.renewed(START_MS + 50_000, ms, 0)

    async def give_back(self, _receipt: Receipt, _topic: str, _group: str) -> None:
        self.done.append("give back")

    async def pop(self, _broker: str, _header: object) -> Any:
        assert self.pops is not None
        return await self.pops()


def held() -> Held:
    return Held("c", "G", "T", "m", Receipt.parse(TEXT), 0)


async def no_config(group: str) -> Any:
    raise AssertionError(group)


async def test_an_ack_goes_on_as_soon_as_the_renewal_under_way_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # G-92
    monkeypatch.setattr("pocketmq.proxy.consuming.renewing.PATIENCE_S", 10_000.0)
    clock, brokers = ManualClock(START_MS), Brokers()
    async with TaskOwner("renewals") as tasks:
        renewing = Renewing(clock, brokers, lambda *_: True, no_config, tasks)  # type: ignore[arg-type]
        renewing.held.add(held())
        renewing.start()
        moving = asyncio.create_task(clock.move_to(START_MS + 55_000))
        await eventually(lambda: brokers.done == ["renew"], "it is renewed")
        newest = asyncio.create_task(renewing.newest("c", "G", "m", TEXT))
        await eventually(lambda: not len(renewing.held), "the ack has ended the renewals")
        assert not newest.done()
        brokers.may_renew.set()
        assert (await newest).text != TEXT
        await moving
        await renewing.stop()


async def test_what_clients_hold_is_given_back_when_no_round_can_renew_it_any_more() -> None:
    clock, brokers = ManualClock(START_MS), Brokers()
    async with TaskOwner("renewals") as tasks:
        renewing = Renewing(clock, brokers, lambda *_: True, no_config, tasks)  # type: ignore[arg-type]
        renewing.held.add(held())
        stop = renewing._service.stop

        async def noted(**options: Any) -> None:
            await stop(**options)
            brokers.done.append("rounds end")

        renewing._service.stop = noted  # type: ignore[method-assign]
        renewing.start()
        await renewing.stop()
        assert brokers.done == ["rounds end", "give back"]


async def test_a_client_that_is_gone_holds_nothing_any_more() -> None:
    clock, brokers = ManualClock(START_MS), Brokers()
    online = True
    async with TaskOwner("renewals") as tasks:
        renewing = Renewing(clock, brokers, lambda *_: online, no_config, tasks)  # type: ignore[arg-type]
        renewing.held.add(held())
        renewing.start()
        await clock.move_to(START_MS + 10_000)
        assert brokers.done == []
        online = False
        await clock.move_to(START_MS + 20_000)
        assert (brokers.done, len(renewing.held)) == (["give back"], 0)
        await renewing.stop()


async def test_what_was_not_told_after_all_is_renewed_no_more_and_given_back() -> None:
    brokers = Brokers()
    async with TaskOwner("receives") as tasks:
        renewing = Renewing(ManualClock(START_MS), brokers, lambda *_: True, no_config, tasks)  # type: ignore[arg-type]
        receiving = Receiving(brokers, renewing, tasks)  # type: ignore[arg-type]
        renewing.held.add(held())
        wanted: Any = SimpleNamespace(client_id="c", group="G", topic="T")
        message: Any = SimpleNamespace(msg_id="m")
        receiving.give_back(wanted, [Handed(message, Receipt.parse(TEXT))])
        assert len(renewing.held) == 0
        await eventually(lambda: brokers.done == ["give back"], "it is")


async def test_a_receive_that_fails_waits_no_more_and_one_whose_client_has_gone_gives_back() -> (
    None
):
    given: list[object] = []
    found: Any = TimeoutError("too late")

    async def receive(_wanted: object) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    consuming = Consuming.__new__(Consuming)
    clients = SimpleNamespace(get=lambda _id: None)
    parts: Any = SimpleNamespace(clients=clients)
    receiving: Any = SimpleNamespace(
        pops=0, receive=receive, give_back=lambda _wanted, handed: given.append(handed)
    )
    consuming._parts, consuming._receiving, consuming.waiting = parts, receiving, 0
    wanted: Any = SimpleNamespace(broker_name="broker-a", client_id="c")
    with pytest.raises(Refusal, match="broker-a"):
        await consuming._handed(wanted)
    assert consuming.waiting == 0
    found = ["a message"]
    with pytest.raises(Refusal, match="no match message"):
        await consuming._handed(wanted)
    assert (given, consuming.waiting) == ([["a message"]], 0)
