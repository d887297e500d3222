"""A half message that is stored, and not as safe as promised, is rolled back (P-60)."""

from __future__ import annotations

import pytest

from pocketmq.client import (
    Message,
    MessageExt,
    SendStatus,
    TransactionProducer,
    TransactionState,
)
from pocketmq.client.listener_threads import InlineThreads
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Dispatcher, Peer
from pocketmq.protocol.headers.transactions import EndTransactionRequestHeader
from pocketmq.protocol.scalars import MessageSysFlag
from support.client_rig import ClientRig, client_rig
from support.eventually import PATIENCE_MS, eventually
from support.scripted_broker import ScriptedBroker


class Books:
    """A local transaction that notes that it ran."""

    def __init__(self) -> None:
        self.done: list[object] = []

    async def execute_local_transaction(
        self, message: Message, argument: object
    ) -> TransactionState:
        self.done.append(argument)
        return TransactionState.COMMIT

    async def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOWN


class Ends(ScriptedBroker):
    """A broker that keeps the ends of transactions."""

    ends: list[EndTransactionRequestHeader]

    async def listen(self, rig: ClientRig) -> None:
        self.ends = []
        dispatcher = Dispatcher()
        dispatcher.add(self)

        def end(_peer: Peer, request: Command) -> None:
            self.ends.append(request.header(EndTransactionRequestHeader))

        dispatcher.register(RequestCode.END_TRANSACTION, end)
        self.listener = await rig.network.serve("127.0.0.1", self.port, dispatcher)


@pytest.mark.parametrize(
    ("code", "status", "state", "sent"),
    [
        (ResponseCode.SUCCESS, SendStatus.SEND_OK, TransactionState.COMMIT,
         MessageSysFlag.TRANSACTION_COMMIT),
        (ResponseCode.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_DISK_TIMEOUT,
         TransactionState.ROLLBACK, MessageSysFlag.TRANSACTION_ROLLBACK),
        (ResponseCode.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT,
         TransactionState.ROLLBACK, MessageSysFlag.TRANSACTION_ROLLBACK),
        (ResponseCode.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE,
         TransactionState.ROLLBACK, MessageSysFlag.TRANSACTION_ROLLBACK),
    ],
)  # fmt: skip
async def test_the_local_transaction_runs_for_a_safe_half_message_alone(
    code: int, status: SendStatus, state: TransactionState, sent: int
) -> None:
    async with client_rig() as rig:
        await rig.brokers[0].stop()
        broker = Ends("a", rig.brokers[0].port, send_code=code)
        await broker.listen(rig)
        rig.brokers[0] = broker
        books = Books()
        producer = TransactionProducer(
            "bookings",
            books,
            threads=InlineThreads(),
            send_timeout_ms=PATIENCE_MS,
            **rig.options,
        )
        async with producer:
            result = await producer.send_in_transaction(Message("T", b"1"), "seat")
            await eventually(lambda: broker.ends, "the broker is told")
        assert (result.send.status, result.state) == (status, state)
        assert books.done == (["seat"] if state is TransactionState.COMMIT else [])
        [end] = broker.ends
        assert end.commit_or_rollback == sent
