"""Quickstart: a nameserver and a broker as processes, ten messages there and back.

Run it with `python scripts/quickstart.py`.
"""

import asyncio

from pocketmq.client import ConsumeFromWhere, Message, Producer, PushConsumer
from pocketmq.cluster import local_cluster
from pocketmq.runtime import logs

TOPIC = "greetings"
COUNT = 10


async def main() -> None:
    async with local_cluster() as cluster:
        print(f"nameserver and broker run at {cluster.namesrv_addr}")

        async with Producer("quickstart-producers", nameservers=cluster.namesrv_addr) as producer:
            for number in range(COUNT):
                body = f"hello {number}".encode()
                result = await producer.send(Message(TOPIC, body, tags="hello", keys=f"k{number}"))
                print(f"sent {number} to {result.queue} at offset {result.queue_offset}")

        consumer = PushConsumer(
            "quickstart-consumers",
            nameservers=cluster.namesrv_addr,
            consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        )
        consumer.subscribe(TOPIC, "hello || goodbye")
        received = 0
        async with consumer:
            async for message in consumer:
                print(f"received {message.body.decode()!r} key {message.keys}")
                received += 1
                if received == COUNT:
                    break
    print("done: everything has stopped")


if __name__ == "__main__":
    logs.configure("warning")
    asyncio.run(main())
