"""Checks of transactions under way, and what a transactional producer leaves when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from pocketmq.client import Message, MessageExt, TransactionProducer, TransactionState
from pocketmq.client.listener_threads import InlineThreads
from pocketmq.client.producer import transaction
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer
from pocketmq.protocol.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)
from support.client_rig import ClientRig, client_rig
from support.eventually import eventually
from support.messages import pulled_message
from support.scripted_broker import ScriptedBroker
from support.strategies import RecordFields

COMMIT = TransactionState.COMMIT


class Asks(ScriptedBroker):
    """A broker that asks for states, and keeps the answers."""

    ends: list[EndTransactionRequestHeader]

    async def listen(self, rig: ClientRig) -> None:
        self.ends = []
        dispatcher = Dispatcher()
        dispatcher.add(self)

        def end(_peer: Peer, request: Command) -> None:
            self.ends.append(request.header(EndTransactionRequestHeader))

        dispatcher.register(RequestCode.END_TRANSACTION, end)
        self.listener = await rig.network.serve("127.0.0.1", self.port, dispatcher)

    def ask(self, number: int) -> None:
        """Ask the one client that is known for the state of a half message."""
        [peer] = self.peers.values()
        header = CheckTransactionStateRequestHeader(
            tran_state_table_offset=number, commit_log_offset=number, msg_id=f"m{number}"
        )
        peer.oneway(
            header, RecordFields(body=b"%d" % number, properties=b"PGROUP\x01bookings\x02").encode()
        )


class Deciding:
    """A listener whose checks wait until the test lets them decide."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.may_decide = asyncio.Event()

    async def execute_local_transaction(
        self, message: Message, argument: object
    ) -> TransactionState:
        return COMMIT

    async def check_local_transaction(self, message: MessageExt) -> TransactionState:
        self.asked.append(message.body)
        await self.may_decide.wait()
        return COMMIT


class Later:
    """A listener of plain functions, one of which returns something to wait for."""

    def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        return COMMIT

    def check_local_transaction(self, message: MessageExt) -> Awaitable[TransactionState]:
        async def decide() -> TransactionState:
            return COMMIT

        return decide()


class Threads(InlineThreads):
    """Threads that note in which order things end."""

    def __init__(self, ended: list[str]) -> None:
        self.ended = ended

    def close(self) -> None:
        self.ended.append("threads closed")
        super().close()


async def start(rig: ClientRig) -> Asks:
    """Put a broker that asks in place of the rig's own."""
    await rig.brokers[0].stop()
    broker = Asks("a", 10911)
    await broker.listen(rig)
    return broker


async def test_checks_under_way_are_bounded_and_an_ended_one_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # P-62
    monkeypatch.setattr(transaction, "MAX_CHECKS", 2)
    listener = Deciding()
    async with client_rig() as rig:
        broker = await start(rig)
        async with TransactionProducer("bookings", listener, **rig.options):
            for number in range(3):
                broker.ask(number)
            await eventually(lambda: len(listener.asked) == 2, "two are asked for")
            assert listener.asked == [b"0", b"1"], "the third is dropped, and asked again in 30 s"
            listener.may_decide.set()
            await eventually(lambda: len(broker.ends) == 2, "both are answered")
            for number in (3, 4):
                broker.ask(number)
            await eventually(lambda: len(broker.ends) == 4, "later ones are answered too")
        assert [each.tran_state_table_offset for each in broker.ends] == [0, 1, 3, 4]
        assert {each.commit_or_rollback for each in broker.ends} == {COMMIT.value}


async def test_a_plain_function_may_return_what_is_to_be_waited_for() -> None:
    async with client_rig() as rig:
        broker = await start(rig)
        options = rig.options
        async with TransactionProducer("bookings", Later(), threads=InlineThreads(), **options):
            broker.ask(1)
            await eventually(lambda: len(broker.ends) == 1, "it is answered")
        assert broker.ends[0].commit_or_rollback == COMMIT.value


async def test_brokers_know_a_member_from_its_start_and_not_after_its_stop() -> None:  # P-62, P-70
    ended: list[str] = []
    async with client_rig() as rig:
        broker = rig.brokers[0]
        threads = Threads(ended)
        async with TransactionProducer("bookings", Later(), threads=threads, **rig.options):
            [data] = broker.clients.values()
            assert [each.group_name for each in data.producer_data_set] == ["bookings"]
            assert ended == []
        assert [each.producer_group for each in broker.unregistered] == ["bookings"]
        assert ended == ["threads closed"]


class Gone:
    """A connection that has ended."""

    is_open = False

    def oneway(self, _header: EndTransactionRequestHeader) -> None:
        raise AssertionError("nobody reads that")


async def test_a_check_that_is_cut_off_is_counted_no_more_and_who_has_gone_gets_no_answer() -> None:
    listener = Deciding()
    producer = TransactionProducer("bookings", listener)
    producer._checks = 2  # as `check_transaction` counts them
    header = CheckTransactionStateRequestHeader(tran_state_table_offset=1, commit_log_offset=1)

    async def begun(asked: int) -> asyncio.Task[None]:
        peer: Any = Gone()
        check = asyncio.create_task(producer._check(peer, header, pulled_message()))
        await eventually(lambda: len(listener.asked) == asked, "the listener is asked")
        return check

    cut_off = await begun(1)
    cut_off.cancel()
    await asyncio.wait([cut_off])
    assert producer._checks == 1
    check = await begun(2)
    listener.may_decide.set()
    await check
    assert producer._checks == 0
