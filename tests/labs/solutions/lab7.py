"""Lab 7: half messages; the book is SQLite, and what runs is known."""

import asyncio
import json
import os
import sqlite3
import sys
from pathlib import Path

from pocketmq.client import Message, MessageExt, TransactionProducer, TransactionState
from pocketmq.runtime import logs


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def wait() -> None:
    sys.stdin.readline()


class Shop:
    """The transaction listener; both methods are called in threads."""

    def __init__(self) -> None:
        path = Path(os.environ["LAB_STATE"]) / "book.db"
        self.db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS book (name TEXT PRIMARY KEY)")
        self.running: set[str] = set()

    @property
    def book(self) -> list[str]:
        return [name for (name,) in self.db.execute("SELECT name FROM book ORDER BY rowid")]

    def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        found = json.loads(message.body)
        self.running.add(found["order"])
        say(before=found["order"])
        wait()
        is_fine = found["price"] < 100
        if is_fine:
            self.db.execute("INSERT OR IGNORE INTO book VALUES (?)", [found["order"]])
        self.running.discard(found["order"])
        say(after=found["order"])
        wait()
        return TransactionState.COMMIT if is_fine else TransactionState.ROLLBACK

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        order = json.loads(message.body)["order"]
        if order in self.book:
            state = TransactionState.COMMIT
        elif order in self.running:
            state = TransactionState.UNKNOWN
        else:
            state = TransactionState.ROLLBACK
        say(checked=order, outcome=state.name.lower())
        return state


async def produce() -> None:
    topic = os.environ["LAB_TOPIC"]
    async with TransactionProducer(os.environ["LAB_GROUP"], Shop()) as producer:
        await producer.publish_queues(topic)  # now heartbeats know the broker
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)["order"]
            message = Message(topic, line.strip().encode(), keys=order)
            result = await producer.send_in_transaction(message)
            say(sent=order, outcome=result.state.name.lower())


if os.environ["LAB_ASK"] == "report":
    say(orders=Shop().book)
else:
    logs.configure("warning")  # to standard error
    asyncio.run(produce())
