"""Runs one seed of replicas. Start reading here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.sink import SinkMaker
from pocketmq.simulation.loop import VirtualLoop
from pocketmq.simulation.play import Play, Result, play, raise_first
from pocketmq.simulation.replicas.cluster import ReplicaCluster
from pocketmq.simulation.replicas.plan import DURATION_S, ReplicaPlan, replica_plan
from pocketmq.simulation.replicas.troubles import Troubles
from pocketmq.simulation.trace import Trace

SWITCH = "--replicas"


def run_replicas(
    seed: int,
    *,
    plan: ReplicaPlan | None = None,
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
    wanted = plan or replica_plan(seed)

    def make(loop: VirtualLoop, chance: random.Random, trace: Trace, events: SinkMaker) -> Play:
        cluster = ReplicaCluster(wanted, loop, chance, trace, events)
        return Play(cluster, _life(cluster, wanted), lambda: _stats(cluster))

    return play(seed, make, switch=SWITCH, sink=sink, write=write)


async def _life(cluster: ReplicaCluster, plan: ReplicaPlan) -> None:
    await cluster.start()
    troubles = Troubles(cluster)
    for event in plan.happenings:
        await cluster.clock.sleep(max(0.0, event.at_s - cluster.loop.time()))
        troubles.apply(event)
    await cluster.clock.sleep(max(0.0, DURATION_S - cluster.loop.time()))
    await cluster.come_to_rest(troubles.lose)
    raise_first(cluster)


def _stats(cluster: ReplicaCluster) -> dict[str, int]:
    watch = cluster.watch
    seen: Counter[str] = Counter(cluster.counts)
    for ledger in (
        watch.elections,
        watch.messages,
        watch.logs,
        watch.offsets,
        watch.lengths,
        watch.routes,
        watch.stillness,
        watch.topics,
    ):
        seen.update(ledger.seen)
    seen["callbacks"] = cluster.loop.callbacks
    return dict(seen)
