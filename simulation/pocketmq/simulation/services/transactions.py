"""Two producers of one group, whose transactions commit, roll back, or wait to be asked."""

from __future__ import annotations

from pocketmq.client import Message, MessageExt
from pocketmq.client.listener_threads import InlineThreads
from pocketmq.client.producer.transaction import TransactionProducer, TransactionState
from pocketmq.simulation.invariants.services import TransactionLedger
from pocketmq.simulation.invariants.services.transactions import Fate, fate_of
from pocketmq.simulation.services.client import FAILURES, ServiceClient, Stage

TOPIC = "TX"
GROUP = "TXP"
FATES = list(Fate)


class TransactionClient(ServiceClient):
    """Sends in transactions, and answers for the whole group.

    Args:
        name: Its own.
        stage: What it lives in.
        ledger: Is told.
    """

    def __init__(self, name: str, stage: Stage, ledger: TransactionLedger) -> None:
        super().__init__(name, stage)
        self._ledger = ledger
        self._producer: TransactionProducer | None = None

    async def live(self) -> None:
        await self.start_producer()
        await self.send_on()

    async def start_producer(self) -> None:
        """Join the group."""
        # One try each: a second half message of the same send would be a transaction of its own.
        self._producer = self.kept(
            TransactionProducer(
                GROUP, self, threads=InlineThreads(), retry_times_when_send_failed=0,
                **self.options,
            )
        )  # fmt: skip
        await self._producer.start()

    async def send_on(self) -> None:
        """One transaction after the other, while the run sends."""
        assert self._producer is not None
        while self.stage.is_sending():
            fate = self.stage.chance.choices(FATES, [4, 2, 2, 1])[0]
            key = f"x{next(self.stage.numbers)}{fate.value}"
            try:
                await self._producer.send_in_transaction(Message(TOPIC, key.encode()))
            except FAILURES as exc:
                self.note("half failed", key, type(exc).__name__)
            await self.pause()

    async def execute_local_transaction(
        self, message: Message, _argument: object
    ) -> TransactionState:
        """The half message is stored."""
        key = bytes(message.body).decode()
        self.note("half", self.name, key)
        self._ledger.stored(key)
        fate = fate_of(key)
        if fate.must_be_asked:
            return TransactionState.UNKNOWN
        return TransactionState.COMMIT if fate.commits else TransactionState.ROLLBACK

    async def check_local_transaction(self, message: MessageExt) -> TransactionState:
        """A broker asks."""
        key = bytes(message.body).decode()
        self.note("asked", self.name, key)
        self._ledger.asked(key)
        return TransactionState.COMMIT if fate_of(key).commits else TransactionState.ROLLBACK
