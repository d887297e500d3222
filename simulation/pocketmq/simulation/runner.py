"""Runs one seed. Start reading here.

scenario(seed)      what will happen                          swarm.py, scenario.py, pure
VirtualLoop         virtual time, processes                   loop.py
SimCluster          production's classes on these seams       cluster.py, machines.py
AppliedEvents       applies joins, crashes, partitions, ...   applied_events.py
Watch               observes the processes after each step    watch.py
ledgers             the invariants                            invariants/, pure
play                does it, and keeps what came of it        play.py
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.sink import SinkMaker
from pocketmq.runtime.profile import profile_named
from pocketmq.simulation.applied_events import AppliedEvents
from pocketmq.simulation.cluster import SimCluster
from pocketmq.simulation.invariants import InvariantError
from pocketmq.simulation.loop import VirtualLoop
from pocketmq.simulation.play import Play, Result, play, raise_first
from pocketmq.simulation.scenario import Group, Kind, Scenario
from pocketmq.simulation.swarm import scenario
from pocketmq.simulation.trace import Trace

DRAIN_S = 360.0
"""Longest wait until all is consumed: a nameserver that comes back late, two polls of routes, and
16 retries 5 s apart."""


def run(
    seed: int,
    *,
    plan: Scenario | None = None,
    sink: Callable[[str], object] | None = None,
    write: Callable[[Event], None] | None = None,
) -> Result:
    """Run a seed.

    Args:
        seed: Decides everything.
        plan: A scenario to run instead of the seed's.
        sink: Called with each line of the trace.
        write: Called with each event of roles and clients, in causal order (docs/events.md).
    """
    wanted = plan or scenario(seed)

    def make(loop: VirtualLoop, chance: random.Random, trace: Trace, events: SinkMaker) -> Play:
        cluster = SimCluster(wanted, loop, chance, trace, events)
        applied = AppliedEvents(cluster)
        life = _life(cluster, applied, wanted)
        return Play(cluster, life, lambda: _stats(cluster, applied))

    return play(seed, make, sink=sink, write=write)


def _stats(cluster: SimCluster, applied: AppliedEvents) -> dict[str, int]:
    """How often the cases occurred that the invariants are about."""
    watch = cluster.watch
    seen: Counter[str] = Counter(sent=cluster.turns.sent, acked=len(watch.acked))
    for ledger in watch.ledgers:
        seen.update(ledger.seen)
    for ownership in watch.ownerships.values():
        seen.update(ownership.seen)
    seen.update(cluster.shapes)
    if cluster.services is not None:
        seen.update(cluster.services.seen())
    seen["runs with several groups"] = len(cluster.plan.groups) > 1
    for machine in cluster.brokers.values():
        if machine.durability is not None:
            seen.update(machine.durability.seen)
        if machine.trouble is not None:
            seen["syncs failed"] += machine.trouble.failed
    seen["send-backs"] = watch.send_backs.asked
    seen["send-backs without an answer"] = watch.send_backs.lost
    seen.update({kind.value: count for kind, count in applied.kinds.items()})
    seen[cluster.plan.mode.value] = 1
    seen["callbacks"] = cluster.loop.callbacks
    return dict(seen)


async def _life(cluster: SimCluster, applied: AppliedEvents, plan: Scenario) -> None:
    await cluster.start()
    for event in plan.events:
        await cluster.clock.sleep(max(0.0, event.at_s - cluster.loop.time()))
        applied.apply(event)
    await cluster.clock.sleep(max(0.0, plan.duration_s - cluster.loop.time()))
    await cluster.drain(DRAIN_S)
    lost = cluster.missing()
    if lost:
        raise InvariantError(f"lost although acknowledged: {lost[:10]} ({len(lost)})")
    exactly = not cluster.watch.send_backs.lost
    when_equal = profile_named(plan.profile).broker.dlq_when_retries_equal_max
    for name, ledger in cluster.watch.ledger_of.items():
        dead = cluster.dead_letters(Group(name))
        ledger.check_dead_letters(dead, exactly=exactly, when_equal=when_equal)
        if not _may_deliver_again(applied.kinds):
            ledger.check_copies(exactly=exactly)
    raise_first(cluster)


def _may_deliver_again(kinds: Collection[Kind]) -> bool:
    """Whether a broker could not save its delay offsets, and delivers messages again (B-94)."""
    if Kind.BROKER_CRASH in kinds or Kind.POWER_CUT in kinds:
        return True
    # A stop in order saves them, once the log is on the disk; it does not wait for a bad one.
    return Kind.BROKER_RESTART in kinds and (Kind.HUNG_DISK in kinds or Kind.FAILING_DISK in kinds)
