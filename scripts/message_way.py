"""Count the files and the calls on the way of one message, from `send` to the listener.

    python scripts/message_way.py
    python scripts/message_way.py --calls          every call of a later message, in its order

At the first message routes and connections are made; later they are known. All processes run in
one loop over a memory network (tests/support/memory_cluster.py). A *switch* is a call into
another file than the call before. docs/walks.md tells what comes out.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

ROOT = Path(__file__).resolve().parents[1]
LATER = 15
sys.path[:0] = [str(ROOT / "tests")]

from pocketmq.client import Message  # noqa: E402 - the path first
from pocketmq.client.consumer.push.push import PushConsumer  # noqa: E402
from support.calls import Call, recorded_calls  # noqa: E402
from support.eventually import eventually  # noqa: E402
from support.memory_cluster import memory_cluster  # noqa: E402


def queues_of(consumer: PushConsumer) -> int:
    """How many queues of the topic it owns."""
    return sum(queue.topic == "T" for queue in consumer.assignment)


async def calls_of_messages(count: int) -> list[list[Call]]:
    """The calls from each `send` to its listener; a pull is held when the send comes."""
    found = []
    received: list[object] = []

    async def listener(message: object) -> None:  # a plain one has a thread, which takes its time
        received.append(message)

    with TemporaryDirectory() as folder:
        async with memory_cluster(Path(folder)) as cluster:
            await cluster.create_topic("T", queues=1)
            consumer, producer = cluster.consumer("G"), cluster.producer()
            consumer.subscribe("T", "*")
            consumer.listen(listener)
            async with consumer, producer:
                await cluster.until(lambda: queues_of(consumer) == 1, "the queue is assigned")
                await cluster.advance(2)
                for number in range(count):
                    held = cluster.brokers["a"].held
                    await eventually(lambda held=held: len(held) >= 2, "both pulls are held")
                    with recorded_calls() as calls:
                        await producer.send(Message("T", b"hello", tags="new"))
                        while len(received) <= number:  # noqa: ASYNC110 - the loop's next turn
                            await asyncio.sleep(0)  # noqa: TID251
                    found.append(list(calls))
                    await cluster.advance(0.6)
    return found


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", action="store_true", help="print every call of a later one")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    first, *later = asyncio.run(calls_of_messages(1 + LATER))
    usual = min(later, key=len)  # in others the next pull or a timer comes in between
    for name, calls in (("the first message", first), (f"the shortest of {LATER} more", usual)):
        paths = [call.path for call in calls if not call.path.startswith("runtime/")]
        switches = sum(one != other for one, other in pairwise(paths))
        print(
            f"{name}: {len(paths)} calls in {len(set(paths))} files, {switches} switches;"
            f" with runtime/ {len({call.path for call in calls})} files"
        )
        for folder, visits in Counter(path.split("/")[0] for path, _ in groupby(paths)).items():
            own = [path for path in paths if path.startswith(f"{folder}/")]
            print(
                f"    {folder}/: {len(own)} calls in {len(set(own))} files, visited {visits} times"
            )
    if options.calls:
        for path, group in groupby(usual, key=lambda call: call.path):
            print(path, *(f"{name} x{n}" for name, n in Counter(c.name for c in group).items()))


if __name__ == "__main__":
    main()
