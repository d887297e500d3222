"""`pocketmq explain message` of messages that went each way there is."""

from __future__ import annotations

import asyncio
import re

from pocketmq.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from pocketmq.testing import Cluster
from support.console import Console
from support.eventually import PATIENCE_MS, PATIENCE_S, eventually


def states(told: dict[str, object]) -> dict[str, str]:
    return {each["group"]: each["state"] for each in told["groups"]}  # type: ignore[attr-defined]


def whats(told: dict[str, object]) -> list[str]:
    return [each["what"] for each in told["steps"]]  # type: ignore[attr-defined]


async def _send(cluster: Cluster, topic: str, **options: object) -> str:
    async with Producer(
        "shop", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
    ) as producer:
        result = await producer.send(Message(topic, b"x", **options))  # type: ignore[arg-type]
        return result.msg_id


def test_a_message_that_fails_is_followed_through_retries_to_the_dead_letters(
    pocketmq_clock: Cluster, console: Console
) -> None:
    cluster = pocketmq_clock
    topic = cluster.sync.create_topic("orders", queues=1)
    tries: list[int] = []

    def fail(
        messages: list[MessageExt], context: ConsumeConcurrentlyContext
    ) -> ConsumeConcurrentlyStatus:
        [message] = messages
        tries.append(message.reconsume_times)
        context.delay_level_when_next_consume = 3 if message.reconsume_times == 0 else -1
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    async def story() -> tuple[str, dict[str, object]]:
        consumer = PushConsumer(
            "billing",
            nameservers=cluster.nameservers,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        )
        consumer.subscribe(topic)
        consumer.listen_batch(fail)
        async with consumer:
            await cluster.group("billing").assigned(limit_s=PATIENCE_S)
            msg_id = await _send(cluster, topic, tags="new")
            await cluster.advance_until(lambda: tries == [0])

            async def waits() -> dict[str, object]:
                told = await asyncio.to_thread(_explain, cluster, msg_id)
                return told if states(told) == {"billing": "retries"} else {}

            waiting = await eventually(waits, "it waits for its retry")
            await cluster.advance_until(lambda: tries == [0, 1])

            async def dead() -> bool:
                told = await asyncio.to_thread(_explain, cluster, msg_id)
                return states(told) == {"billing": "dead"}

            await eventually(dead, "it is a dead letter")
            return msg_id, waiting

    msg_id, waiting = asyncio.run(story())
    assert whats(waiting) == ["sent", "waits for 10 s, then goes to %RETRY%billing"]
    told = console("explain", "message", msg_id, "-o", "json").json
    assert whats(told) == [
        "sent",
        "waits for 10 s, then goes to %RETRY%billing",
        "1st retry of billing",
        "given up by billing",
    ]
    assert told["now"] == "dead: 1"
    assert [each["sent_back"] for each in told["groups"]] == [2]
    lines = console("explain", "message", msg_id).rows
    assert lines[-1] == ["group", "billing", "dead", "2", "in %DLQ%billing after 2 send-backs"]

    console("message", "resend", "billing")
    told = console("explain", "message", msg_id, "-o", "json").json
    assert (whats(told)[-1], states(told)) == ("sent again", {"billing": "waits"})


def _explain(cluster: Cluster, msg_id: str) -> dict[str, object]:
    from dataclasses import asdict

    from pocketmq.client import Admin
    from pocketmq.cluster.explain.message_facts import gather_life
    from pocketmq.cluster.explain.message_life import life

    async def ask() -> dict[str, object]:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            return asdict(life(await gather_life(admin, [msg_id])))

    return asyncio.run(ask())


def test_a_delayed_message_waits_and_is_consumed(pocketmq_clock: Cluster, console: Console) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("orders", queues=1)
    level = asyncio.run(_send(pocketmq_clock, topic, delay_level=2))
    timer = asyncio.run(_send(pocketmq_clock, topic, delay_ms=60_000))
    told = console("explain", "message", level, "-o", "json").json
    assert whats(told) == [f"waits for 5 s, then goes to {topic}"]
    assert told["now"] == f"waits for its time; nobody sees it in {topic} before"
    told = console("explain", "message", timer, "-o", "json").json
    [waits] = whats(told)
    assert re.fullmatch(rf"waits for (59|60)(\.\d+)? s, then goes to {topic}", waits)
    with cluster.consumer("billing", topic) as billing:
        cluster.advance(seconds=6)
        assert billing.receive(limit_s=PATIENCE_S).msg_id == level
        cluster.advance(seconds=60)
        assert billing.receive(limit_s=PATIENCE_S).msg_id == timer
    told = console("explain", "message", level, "-o", "json").json
    assert whats(told)[1:] == ["delivered"]
    assert states(told) == {"billing": "consumed"}


class Decides:
    """As it is told."""

    state = TransactionState.UNKNOWN

    def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        return self.state

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        return TransactionState.UNKNOWN


def test_half_messages_are_pending_committed_or_rolled_back(
    pocketmq: Cluster, console: Console
) -> None:
    topic = pocketmq.sync.create_topic("orders", queues=1)

    async def story() -> list[str]:
        listener = Decides()
        ids = []
        async with TransactionProducer(
            "shop", listener, nameservers=pocketmq.nameservers, send_timeout_ms=PATIENCE_MS
        ) as producer:
            for state in (
                TransactionState.UNKNOWN, TransactionState.COMMIT, TransactionState.ROLLBACK,
            ):  # fmt: skip
                listener.state = state
                result = await producer.send_in_transaction(Message(topic, b"x"))
                ids.append(result.send.msg_id)
            await eventually(
                lambda: asyncio.to_thread(
                    lambda: _explain(pocketmq, ids[2])["now"].startswith("rolled")  # type: ignore[attr-defined]
                ),
                "the rollback is stored",
            )
        return ids

    pending, committed, rolled_back = asyncio.run(story())
    told = console("explain", "message", pending, "-o", "json").json
    assert whats(told) == [f"half message for {topic}; shop decides"]
    assert told["now"].startswith("a half message: it waits")
    told = console("explain", "message", committed, "-o", "json").json
    assert whats(told)[1:] == ["committed"]
    told = console("explain", "message", rolled_back, "-o", "json").json
    assert told["now"] == "rolled back: no consumer gets it"


def test_a_message_that_nobody_has_is_one_line(console: Console) -> None:
    assert console("explain", "message", "7F00").error.startswith("no message '7F00' in any topic")
