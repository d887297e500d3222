"""Our transactional producer with a real RocketMQ broker, which asks and delivers (P-60)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pocketmq.client import (
    ConsumeFromWhere,
    Message,
    MessageExt,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from support.eventually import PATIENCE_MS
from support.real_rocketmq import real_rocketmq

pytestmark = [
    pytest.mark.java,
    pytest.mark.cluster,
    pytest.mark.timeout(1200),  # a first run downloads RocketMQ
]

SETTINGS = {
    "transactionTimeOut": 2000,
    "transactionCheckInterval": 1500,
    "transactionOpBatchInterval": 300,  # with its 3 s RocketMQ asks for what is committed, too
}
STATES = [TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN]


class Thirds:
    """Commits, rolls back, and does not know, by turns; what it does not know it commits later."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        assert isinstance(argument, int)
        return STATES[argument % 3]

    async def check_local_transaction(self, message: MessageExt) -> TransactionState:
        key = message.keys or ""
        decided = STATES[int(key.removeprefix("key-")) % 3]
        if decided is not TransactionState.UNKNOWN:  # a broker that stood still asks for it, too
            return decided
        self.asked.append(key)
        return TransactionState.COMMIT


async def test_rocketmq_delivers_what_we_commit_and_asks_for_what_we_do_not_know(
    tmp_path: Path,
) -> None:
    with real_rocketmq(tmp_path / "store", settings=SETTINGS) as cluster:
        for encoding in ("json", "rocketmq"):
            topic, listener = f"Booked-{encoding}", Thirds()
            options = {"nameservers": cluster.namesrv_addr, "encoding": encoding}
            consumer = PushConsumer(
                f"all-{encoding}",
                consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
                **options,  # type: ignore[arg-type]
            )
            consumer.subscribe(topic)
            producer = TransactionProducer(
                f"bookings-{encoding}", listener, send_timeout_ms=PATIENCE_MS, **options
            )  # type: ignore[arg-type]
            async with producer:
                for index in range(9):
                    message = Message(topic, b"seat", keys=f"key-{index}")
                    result = await producer.send_in_transaction(message, index)
                    assert (result.send.is_ok, result.state) == (True, STATES[index % 3])
                keys: set[str] = set()
                async with consumer, asyncio.timeout(200):
                    async for received in consumer:
                        keys.add(received.keys or "")
                        if len(keys) == 6:
                            break
            assert sorted(keys) == [f"key-{index}" for index in range(9) if index % 3 != 1]
            assert set(listener.asked) == {f"key-{index}" for index in (2, 5, 8)}
