"""Lab 4: survive redelivery. Read README.md, then write a better `enter`."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from pathlib import Path

BOOK = sqlite3.connect(Path(os.environ["LAB_STATE"]) / "book.db", check_same_thread=False)
BOOK.execute("CREATE TABLE IF NOT EXISTS paid (payment TEXT, amount INTEGER)")
BOOK.commit()


def say(what: str, payment: str) -> None:
    """Tell the judge, and wait until it says go."""
    print(json.dumps({what: payment}), flush=True)
    sys.stdin.readline()


def enter(payment: str, amount: int) -> None:
    """Enter a payment in the book."""
    BOOK.execute("INSERT INTO paid VALUES (?, ?)", (payment, amount))
    BOOK.commit()


def on_message(message) -> None:  # type: ignore[no-untyped-def]
    """Called in a thread with each message; returning means success."""
    found = json.loads(message.body)
    say("got", found["payment"])
    enter(found["payment"], found["amount"])
    say("done", found["payment"])


async def consume() -> None:
    from pocketmq.client import ConsumeFromWhere, PushConsumer
    from pocketmq.runtime import logs

    logs.configure("warning")  # to standard error

    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    consumer = PushConsumer(
        os.environ["LAB_GROUP"],
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        consume_thread_max=1,
    )
    consumer.subscribe(os.environ["LAB_TOPIC"])
    consumer.listen(on_message)
    async with consumer:
        await ended.wait()


if os.environ["LAB_ASK"] == "report":
    print(json.dumps({"payments": BOOK.execute("SELECT * FROM paid").fetchall()}))
else:
    asyncio.run(consume())
