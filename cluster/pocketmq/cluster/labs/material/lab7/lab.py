"""Lab 7: half messages. Read README.md, then write a better `Shop`."""

import asyncio
import json
import os
import sys

from pocketmq.client import Message, MessageExt, TransactionProducer, TransactionState
from pocketmq.runtime import logs


def say(**line: object) -> None:
    print(json.dumps(line), flush=True)


def wait() -> None:
    sys.stdin.readline()


class Shop:
    """The transaction listener; both methods are called in threads."""

    def __init__(self) -> None:
        self.book: list[str] = []

    def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
        found = json.loads(message.body)
        say(before=found["order"])
        wait()
        is_fine = found["price"] < 100
        if is_fine:
            self.book.append(found["order"])
        say(after=found["order"])
        wait()
        return TransactionState.COMMIT if is_fine else TransactionState.ROLLBACK

    def check_local_transaction(self, message: MessageExt) -> TransactionState:
        order = json.loads(message.body)["order"]
        state = TransactionState.COMMIT if order in self.book else TransactionState.ROLLBACK
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
