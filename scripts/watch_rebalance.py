"""Watch a rebalance: consumers join and leave, and queues change owners.

Run it with `python scripts/watch_rebalance.py`.
"""

import asyncio
from collections.abc import Callable

from pocketmq.client import Admin, MessageQueue, PushConsumer
from pocketmq.cluster import local_cluster
from pocketmq.runtime import logs

TOPIC = "orders"
QUEUES = 8

owned: dict[str, list[int]] = {}
changed = asyncio.Event()


def watcher(name: str) -> Callable[..., None]:
    """A hook that notes the queues that a consumer owns after each rebalance."""

    def on_assignment_changed(topic: str, _all: object, mine: tuple[MessageQueue, ...]) -> None:
        if topic == TOPIC:  # the group's retry topic is rebalanced as well
            owned[name] = sorted(queue.queue_id for queue in mine)
            changed.set()

    return on_assignment_changed


async def balanced(members: list[str]) -> None:
    """Wait until each queue has one owner and the numbers of queues differ by at most one."""
    while True:
        queues = sorted(queue for name in members for queue in owned.get(name, []))
        sizes = [len(owned.get(name, [])) for name in members]
        if queues == list(range(QUEUES)) and max(sizes) - min(sizes) <= 1:
            return
        changed.clear()
        await changed.wait()


async def show(event: str, members: list[str]) -> None:
    await balanced(members)
    shares = "   ".join(f"{name}: {owned[name]}" for name in members)
    print(f"{event:16} {shares}")


async def main() -> None:
    async with local_cluster() as cluster:
        async with Admin(nameservers=cluster.namesrv_addr) as admin:
            await admin.create_topic(TOPIC, queues=QUEUES)

        consumers: dict[str, PushConsumer] = {}
        for name in ("ann", "bob", "cat"):
            consumer = PushConsumer(
                "watchers",
                nameservers=cluster.namesrv_addr,
                instance_name=name,
                on_assignment_changed=watcher(name),
            )
            consumer.subscribe(TOPIC)
            consumer.listen(lambda message: None)
            await consumer.start()
            consumers[name] = consumer
            await show(f"{name} joins", list(consumers))

        await consumers.pop("ann").stop()  # unregisters, so the others rebalance at once
        await show("ann leaves", list(consumers))
        for consumer in consumers.values():
            await consumer.stop()


if __name__ == "__main__":
    logs.configure("warning")
    asyncio.run(main())
