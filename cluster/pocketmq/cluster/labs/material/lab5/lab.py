"""Lab 5: order under failure. Read README.md, then find the three mistakes."""

import asyncio
import json
import os
import sys
import time

from pocketmq.client import ConsumeFromWhere, MessageExt, PushConsumer
from pocketmq.runtime import logs


def call_service(order: str, step: str, token: int) -> str:
    """Call the service; returns `ok`, `busy` or `stale`."""
    print(json.dumps({"apply": order, "step": step, "token": token}), flush=True)
    answer = json.loads(sys.stdin.readline())
    return "ok" if answer["ok"] else str(answer["why"])


def on_message(message: MessageExt) -> None:
    """Called in a thread with each message; returning means success, raising means failure."""
    found = json.loads(message.body)
    answer = call_service(found["order"], found["step"], token=int(time.time()))  # noqa: TID251
    if answer != "ok":
        print(f"refused as {answer}: {found}", file=sys.stderr)


async def main() -> None:
    consumer = PushConsumer(
        os.environ["LAB_GROUP"],
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        consume_thread_max=1,
    )
    consumer.subscribe(os.environ["LAB_TOPIC"])
    consumer.listen(on_message)
    async with consumer:
        await asyncio.Event().wait()


logs.configure("warning")  # to standard error
asyncio.run(main())
