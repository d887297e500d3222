"""One process asks, another answers."""

from __future__ import annotations

import asyncio

from pocketmq.client import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from pocketmq.client.listener_threads import InlineThreads
from pocketmq.simulation.invariants.services import RequestLedger
from pocketmq.simulation.invariants.services.requests import reply_to
from pocketmq.simulation.services.client import FAILURES, ServiceClient, Stage

TOPIC = "RQ"
TIMEOUT_MS = 3_000


class Asker(ServiceClient):
    """Sends requests, several at a time."""

    def __init__(self, name: str, stage: Stage, ledger: RequestLedger) -> None:
        super().__init__(name, stage)
        self._ledger = ledger

    async def live(self) -> None:
        producer = self.kept(Producer("RQP", **self.options))
        await producer.start()
        while self.stage.is_sending() or not self._ledger.is_answered_in_peace:
            # Several at once: each must get its own reply.
            count = self.stage.chance.choice([1, 3])
            await asyncio.gather(*(self._ask(producer) for _ in range(count)))
            await self.pause()

    async def _ask(self, producer: Producer) -> None:
        body = f"q{next(self.stage.numbers)}".encode()
        self._ledger.asked()
        calm = self.stage.is_calm()
        try:
            reply = await producer.request(Message(TOPIC, body), timeout_ms=TIMEOUT_MS)
        except FAILURES as exc:
            self.note("request failed", body.decode(), type(exc).__name__)
            return
        self.note("reply", body.decode())
        self._ledger.replied(body, bytes(reply.body), self.clock.time_ms())
        if calm:
            self._ledger.answered_in_peace()


class Answerer(ServiceClient):
    """Consumes requests, and replies to each."""

    def __init__(self, name: str, stage: Stage, ledger: RequestLedger) -> None:
        super().__init__(name, stage)
        self._ledger = ledger

    async def live(self) -> None:
        producer = self.kept(Producer("RQA", **self.options))
        await producer.start()

        async def answer(message: MessageExt) -> None:
            try:
                await producer.send_reply(message, reply_to(bytes(message.body)))
            except FAILURES as exc:
                self.note("reply failed", type(exc).__name__)

        consumer = self.kept(
            PushConsumer(
                "RQG",
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                threads=InlineThreads(),
                **self.options,
            )
        )
        consumer.subscribe(TOPIC)
        consumer.listen(answer)
        await consumer.start()
