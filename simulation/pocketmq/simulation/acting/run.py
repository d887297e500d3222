"""Runs one seed of a slave that acts for its master. Start reading here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.sink import SinkMaker
from pocketmq.simulation.acting.cluster import ActingCluster
from pocketmq.simulation.acting.plan import TROUBLE_ENDS_S, ActingPlan, acting_plan
from pocketmq.simulation.loop import VirtualLoop
from pocketmq.simulation.play import Play, Result, play, raise_first
from pocketmq.simulation.trace import Trace

SWITCH = "--acting"


def run_acting(
    seed: int,
    *,
    plan: ActingPlan | None = None,
    sink: Callable[[str], object] | None = None,
    write: Callable[[Event], None] | None = None,
) -> Result:
    """Run a seed.

    Args:
        seed: Decides everything.
        plan: A run to make instead of the seed's.
        sink: Called with each line of the trace.
        write: Called with each event of roles and clients, in causal order (docs/events.md).
    """
    wanted = plan or acting_plan(seed)

    def make(loop: VirtualLoop, chance: random.Random, trace: Trace, events: SinkMaker) -> Play:
        cluster = ActingCluster(wanted, loop, chance, trace, events)
        return Play(cluster, _life(cluster, wanted), lambda: _stats(cluster))

    return play(seed, make, switch=SWITCH, sink=sink, write=write)


async def _life(cluster: ActingCluster, plan: ActingPlan) -> None:
    try:
        await cluster.start()
        for event in plan.happenings:
            await cluster.clock.sleep(max(0.0, event.at_s - cluster.loop.time()))
            cluster.apply(event)
        await cluster.clock.sleep(max(0.0, TROUBLE_ENDS_S - cluster.loop.time()))
        await cluster.heal()
        await cluster.act()
        raise_first(cluster)
    finally:
        cluster.end()


def _stats(cluster: ActingCluster) -> dict[str, int]:
    seen: Counter[str] = Counter(cluster.counts)
    seen.update(cluster.watch.seen)
    seen.update(cluster.watch.logs.seen)
    seen["callbacks"] = cluster.loop.callbacks
    return dict(seen)
