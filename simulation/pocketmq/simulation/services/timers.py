"""A producer of messages with a time, some of which it recalls."""

from __future__ import annotations

from pocketmq.client import Message, Producer
from pocketmq.simulation.invariants.services import TimerLedger
from pocketmq.simulation.services.client import FAILURES, ServiceClient, Stage

TOPIC = "TT"


class TimerClient(ServiceClient):
    """Sends messages for later.

    Args:
        name: Its own.
        stage: What it lives in.
        ledger: Is told.
    """

    def __init__(self, name: str, stage: Stage, ledger: TimerLedger) -> None:
        super().__init__(name, stage)
        self._ledger = ledger

    async def live(self) -> None:
        chance = self.stage.chance
        # One try each: a second copy of the same send would be a message of its own.
        producer = self.kept(Producer("TTP", retry_times_when_send_failed=0, **self.options))
        await producer.start()
        while self.stage.is_sending():
            key = f"w{next(self.stage.numbers)}"
            due_ms = self.clock.time_ms() + round(
                chance.choice([chance.uniform(0, 5e3), chance.uniform(5e3, 6e4), 10_000])
            )
            due_ms -= due_ms % chance.choice([1, 1000])
            await self._send(producer, key, due_ms, recall=chance.random() < 0.25)
            await self.pause()

    async def _send(self, producer: Producer, key: str, due_ms: int, *, recall: bool) -> None:
        self._ledger.attempted(key, due_ms)
        try:
            sent = await producer.send(Message(TOPIC, key.encode(), deliver_at=due_ms))
            self.note("timed", key, due_ms, sent.status.name)
            if sent.is_ok:
                self._ledger.sent(key, sent.queue.broker_name)
            if not recall or not sent.is_ok or sent.recall_handle is None:
                return
            await self.clock.sleep(self.stage.chance.uniform(0.0, 2.0))
            self._ledger.recalling(key)
            await producer.recall(sent.recall_handle)
        except FAILURES as exc:
            self.note("timer failed", key, type(exc).__name__)
            return
        self.note("recalled", key)
        self._ledger.recalled(key, self.clock.time_ms())
