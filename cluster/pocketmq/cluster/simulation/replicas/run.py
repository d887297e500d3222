"""Runs one seed of replicas. Start reading here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from time import process_time

from pocketmq.cluster.simulation.invariants import InvariantError
from pocketmq.cluster.simulation.loop import SimProcess, VirtualLoop
from pocketmq.cluster.simulation.replicas.cluster import ReplicaCluster
from pocketmq.cluster.simulation.replicas.plan import DURATION_S, ReplicaPlan, replica_plan
from pocketmq.cluster.simulation.replicas.troubles import Troubles
from pocketmq.cluster.simulation.runner import (
    MOST_CALLBACKS,
    Result,
    no_collections,
    silent_logs,
    sinks,
)
from pocketmq.cluster.simulation.trace import Trace
from pocketmq.protocol.events.event import Event

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
    plan = plan or replica_plan(seed)
    result = Result(seed, switch=SWITCH)
    began_at = process_time()
    state = random.getstate()
    random.seed(seed)  # production code draws from the module's generator
    loop = VirtualLoop()
    trace = Trace(loop.time, sink)
    with silent_logs(), no_collections():
        cluster = ReplicaCluster(
            plan, loop, random.Random(seed ^ 0x5EED), trace, sinks(loop, write)
        )
        try:
            loop.run_checked(_life(cluster, plan), _checker(cluster, loop))
        except InvariantError as exc:
            result.violation = str(exc)
            trace.note("violation", exc)
            cluster.telling.violated(exc)
        finally:
            result.virtual_s = loop.time()
            result.digest = trace.digest
            result.story = list(trace.lines)
            loop.finish()
    random.setstate(state)
    result.real_s = process_time() - began_at
    result.stats = _stats(cluster)
    return result


async def _life(cluster: ReplicaCluster, plan: ReplicaPlan) -> None:
    await cluster.start()
    troubles = Troubles(cluster)
    for event in plan.happenings:
        await cluster.clock.sleep(max(0.0, event.at_s - cluster.loop.time()))
        troubles.apply(event)
    await cluster.clock.sleep(max(0.0, DURATION_S - cluster.loop.time()))
    await cluster.come_to_rest()
    _raise_first(cluster)


def _checker(cluster: ReplicaCluster, loop: VirtualLoop) -> Callable[[list[SimProcess]], None]:
    watch = cluster.watch

    def check(ran: list[SimProcess]) -> None:
        watch.look(ran)
        if loop.callbacks > MOST_CALLBACKS:
            raise InvariantError(f"{loop.time():.3f} the cluster does not come to rest")
        if watch.violations or loop.failures:
            _raise_first(cluster)

    return check


def _raise_first(cluster: ReplicaCluster) -> None:
    for violation in cluster.watch.violations:
        raise InvariantError(violation)
    for context in cluster.loop.failures:
        error = context.get("exception")
        raise InvariantError(f"nobody caught: {context['message']}: {error!r}") from error


def _stats(cluster: ReplicaCluster) -> dict[str, int]:
    watch = cluster.watch
    seen: Counter[str] = Counter(cluster.counts)
    for ledger in (watch.elections, watch.messages, watch.logs, watch.offsets):
        seen.update(ledger.seen)
    seen["callbacks"] = cluster.loop.callbacks
    return dict(seen)
