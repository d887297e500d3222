"""A group that pops: two members that take messages themselves, one with a listener; a producer."""

from __future__ import annotations

from pocketmq.client import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    SimpleConsumer,
)
from pocketmq.client.consumer.popping.receipts import handle_of
from pocketmq.client.listener_threads import InlineThreads
from pocketmq.simulation.invariants.services import PopLedger
from pocketmq.simulation.invariants.services.pops import Delivery
from pocketmq.simulation.services.client import FAILURES, ServiceClient, Stage

TOPIC = "PP"
GROUP = "PG"
FORGOTTEN, AGAIN, LATE = "?", "!", "~"
"""Endings of messages whose first receiver forgets them, has them come again soon, or acks late."""
FATES = ("", "", "", FORGOTTEN, AGAIN, LATE)


class PopProducer(ServiceClient):
    """Sends what the group pops."""

    def __init__(self, name: str, stage: Stage, ledger: PopLedger) -> None:
        super().__init__(name, stage)
        self._ledger = ledger

    async def live(self) -> None:
        # One try each: a second copy of the same send would be a message of its own.
        producer = self.kept(Producer("PPP", retry_times_when_send_failed=0, **self.options))
        await producer.start()
        while self.stage.is_sending():
            for _ in range(self.stage.chance.choice([1, 1, 4])):
                key = f"p{next(self.stage.numbers)}{self.stage.chance.choice(FATES)}"
                try:
                    sent = await producer.send(Message(TOPIC, key.encode()))
                except FAILURES as exc:
                    self.note("send failed", key, type(exc).__name__)
                    continue
                if sent.is_ok:
                    self._ledger.sent(key, sent.queue.broker_name)
            await self.pause()


class _Member(ServiceClient):
    def __init__(self, name: str, stage: Stage, ledger: PopLedger) -> None:
        super().__init__(name, stage)
        self._ledger = ledger

    def _got(self, message: MessageExt) -> tuple[str, Delivery]:
        key, handle = bytes(message.body).decode(), handle_of(message)
        self.note("popped", self.name, key, str(handle))
        delivery = Delivery(
            self.name,
            handle.broker_name,
            handle.pop_time_ms,
            handle.due_ms,
            message.reconsume_times,
        )
        self._ledger.handed_out(key, delivery)
        return key, delivery

    def _fate(self, key: str, message: MessageExt) -> str:
        calm = self.stage.is_calm() or message.reconsume_times > 0
        return "" if calm else key[-1]


class PopMember(_Member):
    """Receives, and acknowledges each message, in time or too late."""

    async def live(self) -> None:
        consumer = self.kept(
            SimpleConsumer(GROUP, consume_from_where=ConsumeFromWhere.FIRST_OFFSET, **self.options)
        )
        consumer.subscribe(TOPIC)
        await consumer.start()
        while True:
            try:
                messages = await consumer.receive(
                    8, invisible_s=self.stage.plan.invisible_s, wait_s=5.0
                )
            except FAILURES as exc:
                self.note("receive failed", self.name, type(exc).__name__)
                await self.clock.sleep(1.0)
                continue
            for message, (key, delivery) in [(m, self._got(m)) for m in messages]:
                await self._work(consumer, message, key, delivery)

    async def _work(
        self, consumer: SimpleConsumer, message: MessageExt, key: str, delivery: Delivery
    ) -> None:
        fate = self._fate(key, message)
        if fate == FORGOTTEN:
            return
        try:
            if fate == AGAIN:
                await self._show_soon(consumer, message, key, delivery)
                return
            late = fate == LATE
            await self.clock.sleep(self.stage.plan.invisible_s + 1.0 if late else 0.05)
            self._ledger.ack_in_doubt(key)  # first: this member may be killed before the answer
            await consumer.ack(message)
        except FAILURES as exc:
            self.note("ack failed", self.name, key, type(exc).__name__)
            return
        self._ledger.acknowledged(key, delivery, self.clock.time_ms())

    async def _show_soon(
        self, consumer: SimpleConsumer, message: MessageExt, key: str, delivery: Delivery
    ) -> None:
        due_ms = delivery.until_ms
        self._ledger.hidden_until(delivery, -1)
        try:
            await consumer.change_invisible(message, 3.0)
        finally:
            if self.clock.time_ms() >= due_ms:
                self._ledger.changed_late(key)
        self._ledger.hidden_until(delivery, handle_of(message).due_ms)


class PopListener(_Member):
    """A push consumer whose brokers say that it pops."""

    async def live(self) -> None:
        threshold = self.stage.plan.pop_threshold
        consumer = self.kept(
            PushConsumer(
                GROUP,
                client_rebalance=False,
                pop_invisible_time_ms=round(self.stage.plan.invisible_s * 1000),
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                threads=InlineThreads(),
                pop_threshold_for_queue=96 if threshold is None else threshold,
                **self.options,
            )
        )
        consumer.subscribe(TOPIC)
        consumer.listen(self._listen)
        await consumer.start()

    async def _listen(self, message: MessageExt) -> ConsumeConcurrentlyStatus | None:
        key, delivery = self._got(message)
        fate = self._fate(key, message)
        if fate == AGAIN:
            self._ledger.hidden_until(delivery, -1)
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        if fate in (LATE, FORGOTTEN):  # longer than the invisible time: it comes again
            await self.clock.sleep(self.stage.plan.invisible_s + 1.0)
            return None
        now_ms = self.clock.time_ms()
        if self.stage.is_fair:
            self._ledger.acknowledged(key, delivery, now_ms)
        elif now_ms < delivery.until_ms:
            self._ledger.ack_in_doubt(key)
        return None
