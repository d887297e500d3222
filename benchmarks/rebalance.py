"""Measures how fast a group rebalances, and a broker's time per member. Part of `make bench`.

    python benchmarks/rebalance.py                           all rows
    python benchmarks/rebalance.py --only takeover --rounds 5

Three kinds of rows: one member's decision (milliseconds in this process); the time from a SIGKILL
of a consumer until the others have pulled each of its queues, with real processes; and a broker's
processor time for one heartbeat and one consumer list, in groups of 10 to 5,000 members.
Saved as benchmarks/results/rebalance.json.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack

from figures import CONSOLE, Figures, judged, median_ratio, save, show_figures
from processes import HERE, Process, cluster, processor_us
from rich.table import Table

from pocketmq.client import Admin, ConsumeFromWhere, MessageExt, MessageQueue, PushConsumer
from pocketmq.client.consumer.push.push_queues import PullListener
from pocketmq.client.consumer.settings import PushOptions
from pocketmq.client.rebalance.planner import RebalancePlanner
from pocketmq.protocol.allocation.by_name import STRATEGIES
from pocketmq.protocol.allocation.steps import TopicSeen
from pocketmq.protocol.bodies.clients import ConsumerData, HeartbeatData
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.headers.clients import (
    GetConsumerListRequestHeader,
    HeartbeatRequestHeader,
)
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime import logs
from pocketmq.runtime.process import loop_factory
from pocketmq.runtime.profile import ProfileName

TOPIC = "bench"
QUEUES = 8
WAIT_S = 60.0
PROFILES: tuple[ProfileName, ...] = ("4.9", "5.x")
MEMBERS = (10, 50, 100, 500, 1_000, 5_000)
BEATS = 10_000
LISTS_AT_ONCE = 50
IDS = 500_000
"""In all lists that are asked for at one size of the group."""


# -- the decision ---------------------------------------------------------------------------------


def decision(figures: Figures, rounds: int) -> None:
    """One member's complete decision: 1,000 members, 10,000 shuffled queues on 10 brokers."""
    queues = [MessageQueue(TOPIC, f"broker-{b}", i) for b in range(10) for i in range(1_000)]
    members = [f"10.0.{at // 250}.{at % 250}@{4000 + at}#{10**9 + at}" for at in range(1_000)]
    shuffled = list(members)
    random.Random(7).shuffle(shuffled)
    for _ in range(rounds):
        for name, make in STRATEGIES.items():
            planner = RebalancePlanner("group", members[500], make())
            began = time.perf_counter()
            planner.on(TopicSeen(TOPIC, queues, shuffled), 0.0)
            took_ms = (time.perf_counter() - began) * 1000
            figures.setdefault(f"decision ms, 1,000 x 10,000 | {name}", []).append(took_ms)


# -- from a crash to its queues' next pull ---------------------------------------------------------


def member(note: PullListener | None = None, **options: Unpack[PushOptions]) -> PushConsumer:
    """A member of the group; the topic is empty, as only pulls are measured."""

    async def consume(message: MessageExt) -> None:
        raise AssertionError(f"nobody sent {message}")

    first = ConsumeFromWhere.FIRST_OFFSET
    consumer = PushConsumer("bench-group", on_pull=note, consume_from_where=first, **options)
    consumer.subscribe(TOPIC)
    consumer.listen(consume)
    return consumer


def mine(consumer: PushConsumer) -> set[MessageQueue]:
    return {queue for queue in consumer.assignment if queue.topic == TOPIC}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - conditions of several processes
            await asyncio.sleep(0.001)


async def take_over(nameserver: str, profile: ProfileName) -> float:
    """Milliseconds from the kill of one of three members until its queues are pulled again."""
    pulled: dict[MessageQueue, float] = {}

    def note(queue: MessageQueue) -> None:
        pulled[queue] = time.perf_counter()

    survivors = [
        member(note, nameservers=nameserver, profile=profile, instance_name=f"survivor-{at}")
        for at in range(2)
    ]
    child = (__file__, "--victim", nameserver, "--profile", profile)
    async with survivors[0], survivors[1]:
        victim = await asyncio.to_thread(Process, *child)
        try:
            fair = (QUEUES // 3, -(-QUEUES // 3))
            await until(lambda: all(len(mine(each)) in fair for each in survivors))
            owned = set[MessageQueue]().union(*map(mine, survivors))
            taken = {MessageQueue(TOPIC, "broker-0", at) for at in range(QUEUES)} - owned
            await asyncio.sleep(1.0)  # the join is over for everybody: C-25.4's 500 ms are
            pulled.clear()
            began = time.perf_counter()
            os.kill(victim.popen.pid, signal.SIGKILL)
            await until(lambda: taken <= pulled.keys())
            return (max(pulled[queue] for queue in taken) - began) * 1000
        finally:
            victim.stop()


async def be_victim(nameserver: str, profile: ProfileName) -> None:
    """Be a member until killed."""
    consumer = member(nameservers=nameserver, profile=profile, instance_name="victim")
    async with consumer:
        await until(lambda: bool(mine(consumer)))
        print("READY port=0", flush=True)
        await asyncio.Event().wait()


def takeover(figures: Figures, rounds: int) -> None:
    for profile in PROFILES:
        with (
            tempfile.TemporaryDirectory(dir=HERE, prefix="tmp-") as folder,
            cluster(Path(folder), 1, "--profile", profile) as (nameserver, _),
        ):
            asyncio.run(make_topic(nameserver))
            for _ in range(rounds):
                took_ms = with_loop(take_over(nameserver, profile))
                name = f"crash to pull of its queues ms | profile {profile}"
                figures.setdefault(name, []).append(took_ms)


async def make_topic(nameserver: str) -> None:
    async with Admin(nameservers=nameserver) as admin:
        await admin.create_topic(TOPIC, queues=QUEUES)


# -- members of a large group ----------------------------------------------------------------------


async def member_costs(broker: Process, members: int) -> tuple[float, float]:
    """A broker's processor time in us for a heartbeat and a list, in a group of this size."""
    network, group = TcpNetwork(), f"group-{members}"
    channels = [await network.connect(broker.address, Dispatcher()) for _ in range(members)]
    subscription = SubscriptionData.parse(TOPIC, "*", 1)
    beats = [
        (
            channel,
            HeartbeatRequestHeader(),
            HeartbeatData(
                client_id=f"10.0.0.1@{at}#{10**9 + at}",
                consumer_data_set=[
                    ConsumerData(group_name=group, subscription_data_set=[subscription])
                ],
            ),
        )
        for at, channel in enumerate(channels)
    ]
    header = GetConsumerListRequestHeader(consumer_group=group)
    lists = [(channel, header, b"") for channel in channels[:LISTS_AT_ONCE]]
    await gathered(beats)  # all have joined
    costs = []
    for requests, times in (
        (beats, max(1, BEATS // members)),
        (lists, max(1, IDS // members // len(lists))),
    ):
        began_us = processor_us(broker)
        for _ in range(times):
            await gathered(requests)
        costs.append((processor_us(broker) - began_us) / (times * len(requests)))
    for channel in channels:
        channel.close()
    return costs[0], costs[1]


async def gathered(requests: list[tuple[Channel, Any, Any]]) -> None:
    """Send all requests at once and wait for every answer."""
    answers = [channel.request(header, body, timeout_s=60.0) for channel, header, body in requests]
    for response in await asyncio.gather(*answers):
        if response.code != 0:
            raise RuntimeError(response.remark)


def members(figures: Figures, rounds: int) -> None:
    with (
        tempfile.TemporaryDirectory(dir=HERE, prefix="tmp-") as folder,
        cluster(Path(folder)) as (_, (broker,)),
    ):
        for _ in range(min(rounds, 5)):
            for count in MEMBERS:
                beat_us, list_us = with_loop(member_costs(broker, count))
                figures.setdefault(f"heartbeat us | {count:,} members", []).append(beat_us)
                figures.setdefault(f"consumer list us | {count:,} members", []).append(list_us)


# -- main ------------------------------------------------------------------------------------------


def with_loop(coroutine: Any) -> Any:
    """Run a coroutine on the kind of loop that roles use."""
    with asyncio.Runner(loop_factory=loop_factory(os.environ)) as runner:
        return runner.run(coroutine)


LIMITS = [
    ("decision ms, 1,000 x 10,000 | averagely", 50.0),
    ("decision ms, 1,000 x 10,000 | consistent-hash", 500.0),
    ("crash to pull of its queues ms | profile 4.9", 300.0),
    ("crash to pull of its queues ms | profile 5.x", 800.0),
]
LINEAR = [
    ("heartbeat us", 2.0, "one heartbeat costs the same in any group"),
    ("consumer list us", 50.0, "one list has 50 times the ids"),
]
"""Maximum growth of a figure from 100 to 5,000 members; linear growth is 1 and 50."""


def show(figures: Figures) -> None:
    """Print all figures, and compare those that have goals."""
    show_figures(figures)
    goals = Table("figure", "median", "to reach", title="goals")
    for name, limit in LIMITS:
        if name in figures:
            value = statistics.median(figures[name])
            goals.add_row(name, judged(value, reached=value <= limit), f"<= {limit:g}")
    for name, limit, why in LINEAR:
        few, many = f"{name} | 100 members", f"{name} | 5,000 members"
        if few in figures:
            value = median_ratio(figures, many, few)
            what = f"{name}, 5,000 : 100 members ({why})"
            goals.add_row(what, judged(value, reached=value <= limit), f"<= {limit:g}")
    CONSOLE.print(goals)


ROWS = {"decision": decision, "takeover": takeover, "members": members}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", choices=list(ROWS), action="append")
    parser.add_argument("--victim", metavar="HOST:PORT", help=argparse.SUPPRESS)
    parser.add_argument("--profile", choices=PROFILES, default="5.x", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logs.configure("error")
    if options.victim:
        with_loop(be_victim(options.victim, options.profile))
        return
    figures: Figures = {}
    for name in options.only or ROWS:
        ROWS[name](figures, options.rounds)
    show(figures)
    save(figures, "rebalance", options.only)


if __name__ == "__main__":
    main()
