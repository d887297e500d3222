"""What watching costs a broker: processor time for each message, with and without a watcher.

    python benchmarks/watching.py                   5 rounds, 3 minutes
    python benchmarks/watching.py --rate 2000

One broker, a producer with a fixed rate and a consumer, as processes. A round measures the broker
while its events are fetched as `/events` does, and while nobody has fetched them for so long that
it makes none; which of the two comes first alternates. Printed is the ratio of each round, and
their median. Saved as benchmarks/results/watching.json.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from pocketmq.client import ConsumeFromWhere, Message, MessageExt, Producer, PushConsumer
from pocketmq.cluster.spec import ClusterOptions, cluster_spec
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.operation.events.log import LEASE_US
from pocketmq.runtime.clock import SystemClock

HERE = Path(__file__).resolve().parent
TOPIC = "orders"
BODY = b"x" * 200
MEASURED_S = 5.0
TICKS_PER_S = 100
clock = SystemClock()


async def load(nameservers: str, rate: int) -> None:
    """Send `rate` messages a second and consume them, until standard input ends."""

    async def consumed(_messages: list[MessageExt], _context: object) -> None:
        pass

    consumer = PushConsumer(
        "billing",
        nameservers=nameservers,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
        consume_message_batch_max_size=32,
    )
    consumer.subscribe(TOPIC)
    consumer.listen_batch(consumed)
    async with Producer("shop", nameservers=nameservers) as producer, consumer:
        began_at, sent = clock.monotonic(), 0
        while True:
            due = int((clock.monotonic() - began_at) * rate) - sent
            burst = min(due, 2 * rate // TICKS_PER_S)
            await asyncio.gather(*(producer.send(Message(TOPIC, BODY)) for _ in range(burst)))
            sent += due  # what it is behind it leaves out
            await clock.sleep(1 / TICKS_PER_S)


@contextlib.asynccontextmanager
async def loaded(rate: int) -> AsyncIterator[ClusterControl]:
    options = ClusterOptions(nameservers=1, brokers=1, any_port=True, log_level="error")
    with tempfile.TemporaryDirectory() as folder:
        control = ClusterControl(
            RoleProcesses(Supervisor(cluster_spec(options, Path(folder)))), "real"
        )
        await control.start()
        try:
            await control.create_topic(TOPIC, 4)
            arguments = [__file__, "--load", control.nameservers, "--rate", str(rate)]
            child = await asyncio.create_subprocess_exec(sys.executable, *arguments)
            try:
                yield control
            finally:
                child.kill()
                await child.wait()
        finally:
            await control.stop()


async def measured(control: ClusterControl) -> tuple[float, float]:
    """Microseconds of the broker's processor time for each message, and messages a second."""
    roles = control.roles
    assert isinstance(roles, RoleProcesses)
    broker = roles.supervisor["broker-a"].pid
    async with control.admin() as admin:

        async def stored() -> int:
            return sum(each.max_offset for each in (await admin.topic_stats(TOPIC)).values())

        before, used, began_at = await stored(), spent_ns(broker), clock.monotonic()
        await clock.sleep(MEASURED_S)
        spent = spent_ns(broker) - used
        after, ended_at = await stored(), clock.monotonic()
    return spent / (after - before) / 1e3, (after - before) / (ended_at - began_at)


def spent_ns(pid: int) -> int:
    """Processor time of all threads of a process, in ns; in ticks of 10 ms it is too coarse."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in threads)


async def watched(control: ClusterControl) -> tuple[float, float]:
    async with control.events.watch() as watching:

        async def drain() -> None:
            while True:
                await watching.get()

        draining = asyncio.get_running_loop().create_task(drain())
        await clock.sleep(6.0)  # whoever has just begun to watch is told more
        found = await measured(control)
        draining.cancel()
    return found


async def unwatched(control: ClusterControl) -> tuple[float, float]:
    await clock.sleep(LEASE_US / 1e6 + 1)
    return await measured(control)


async def rounds(rate: int, number: int) -> list[float]:
    found = []
    async with loaded(rate) as control:
        await clock.sleep(3.0)
        for at in range(number):
            if at % 2:
                (with_us, with_rate), (without_us, rate_off) = (
                    await watched(control),
                    await unwatched(control),
                )
            else:
                (without_us, rate_off), (with_us, with_rate) = (
                    await unwatched(control),
                    await watched(control),
                )
            found.append(with_us / without_us)
            print(
                f"unwatched {without_us:6.1f} us a message at {rate_off:5.0f}/s, watched "
                f"{with_us:6.1f} us at {with_rate:5.0f}/s: ratio {found[-1]:.3f}",
                flush=True,
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rate", type=int, default=5000, help="Messages a second.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--load", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        asyncio.run(load(options.load, options.rate))
        return
    found = asyncio.run(rounds(options.rate, options.rounds))
    median = statistics.median(found)
    print(f"median {median:.3f}, goal 1.05: {'reached' if median <= 1.05 else 'missed'}")
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    (results / "watching.json").write_text(json.dumps({"rate": options.rate, "ratios": found}))


if __name__ == "__main__":
    from pocketmq.runtime import logs

    logs.configure("error")
    main()
