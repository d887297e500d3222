"""Lab 6: retry and dead letter. Read README.md, then write `on_messages`."""

import asyncio
import json
import os
import sys
from typing import Any

from pocketmq.client import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    MessageExt,
    PushConsumer,
)
from pocketmq.runtime import logs

WAITS_S = [1, 1, 1, 1]
"""Your prediction: seconds between the attempts."""


def call_service(job: str, attempt: int) -> Any:
    """Call the service; `answer["ok"]` tells how it went."""
    print(json.dumps({"call": job, "attempt": attempt}), flush=True)
    return json.loads(sys.stdin.readline())


def on_messages(
    messages: list[MessageExt], context: ConsumeConcurrentlyContext
) -> ConsumeConcurrentlyStatus:
    """Called in a thread with one message at a time."""
    message = messages[0]
    job = json.loads(message.body)["job"]
    answer = call_service(job, attempt=message.reconsume_times + 1)
    if answer["ok"]:
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS
    return ConsumeConcurrentlyStatus.RECONSUME_LATER


async def main() -> None:
    consumer = PushConsumer(
        os.environ["LAB_GROUP"],
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        consume_thread_max=1,
    )
    consumer.subscribe(os.environ["LAB_TOPIC"])
    consumer.listen_batch(on_messages)
    async with consumer:
        await asyncio.Event().wait()


print(json.dumps({"waits_s": WAITS_S}), flush=True)
logs.configure("warning")  # to standard error
asyncio.run(main())
