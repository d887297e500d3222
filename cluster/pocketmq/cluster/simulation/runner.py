"""Runs one seed. Start reading here.

scenario(seed)      what will happen                          swarm.py, scenario.py, pure
VirtualLoop         virtual time, processes                   loop.py
SimCluster          production's classes on these seams       cluster.py, machines.py
Happenings          applies joins, crashes, partitions, ...   happenings.py
Watch               observes the processes after each step    watch.py
ledgers             the invariants                            invariants/, pure
"""

from __future__ import annotations

import gc
import logging
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from time import process_time

import structlog

from pocketmq.cluster.simulation.cluster import SimCluster
from pocketmq.cluster.simulation.happenings import Happenings
from pocketmq.cluster.simulation.invariants import InvariantError
from pocketmq.cluster.simulation.loop import SimProcess, VirtualLoop
from pocketmq.cluster.simulation.scenario import Group, Kind, Scenario
from pocketmq.cluster.simulation.swarm import scenario
from pocketmq.cluster.simulation.trace import Trace
from pocketmq.protocol.events.event import Event
from pocketmq.protocol.events.recorder import Recorder
from pocketmq.protocol.events.sink import SinkMaker, no_events

DRAIN_S = 240.0
RUNS_PER_COLLECTION = 4
_runs = count(1)
MOST_CALLBACKS = 1_000_000
"""Maximum steps; runs have some ten thousand, and more mean an endless loop of requests."""


@dataclass(slots=True)
class Result:
    """Result of a run."""

    seed: int
    digest: str = ""
    violation: str | None = None
    story: list[str] = field(default_factory=list)
    """The last lines of the trace."""
    stats: dict[str, int] = field(default_factory=dict)
    virtual_s: float = 0.0
    real_s: float = 0.0
    """Processor seconds of the run."""
    switch: str = ""
    """Which kind of seed it is: empty, or `--replicas`."""

    @property
    def replay(self) -> str:
        """The command that repeats this run."""
        switch = f"{self.switch} " if self.switch else ""
        return f"python scripts/simulate.py {switch}--seed {self.seed} --trace"


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
    plan = plan or scenario(seed)
    result = Result(seed)
    began_at = process_time()
    state = random.getstate()
    random.seed(seed)  # production code draws from the module's generator
    loop = VirtualLoop()
    trace = Trace(loop.time, sink)
    with silent_logs(), no_collections():
        events = sinks(loop, write)
        cluster = SimCluster(plan, loop, random.Random(seed ^ 0x5EED), trace, events)
        happenings = Happenings(cluster)
        try:
            loop.run_checked(_life(cluster, happenings, plan), _checker(cluster, loop))
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
    result.stats = _stats(cluster, happenings)
    return result


def sinks(loop: VirtualLoop, write: Callable[[Event], None] | None) -> SinkMaker:
    """Where roles and clients leave their events, in virtual time; nowhere without `write`."""
    return no_events if write is None else Recorder(write, lambda: round(loop.time() * 1e6)).sink


def _stats(cluster: SimCluster, happenings: Happenings) -> dict[str, int]:
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
    seen.update({kind.value: count for kind, count in happenings.kinds.items()})
    seen[cluster.plan.mode.value] = 1
    seen["callbacks"] = cluster.loop.callbacks
    return dict(seen)


async def _life(cluster: SimCluster, happenings: Happenings, plan: Scenario) -> None:
    await cluster.start()
    for event in plan.events:
        await cluster.clock.sleep(max(0.0, event.at_s - cluster.loop.time()))
        happenings.apply(event)
    await cluster.clock.sleep(max(0.0, plan.duration_s - cluster.loop.time()))
    await cluster.drain(DRAIN_S)
    lost = cluster.missing()
    if lost:
        raise InvariantError(f"lost although acknowledged: {lost[:10]} ({len(lost)})")
    exactly = not cluster.watch.send_backs.lost
    for name, ledger in cluster.watch.ledger_of.items():
        ledger.check_dead_letters(cluster.dead_letters(Group(name)), exactly=exactly)
        if not _may_deliver_again(happenings.kinds):
            ledger.check_copies(exactly=exactly)
    _raise_first(cluster, cluster.loop)


def _may_deliver_again(kinds: Collection[Kind]) -> bool:
    """Whether a broker could not save its delay offsets, and delivers messages again (B-94)."""
    if Kind.BROKER_CRASH in kinds or Kind.POWER_CUT in kinds:
        return True
    # A stop in order saves them, once the log is on the disk; it does not wait for a bad one.
    return Kind.BROKER_RESTART in kinds and (Kind.HUNG_DISK in kinds or Kind.FAILING_DISK in kinds)


def _checker(cluster: SimCluster, loop: VirtualLoop) -> Callable[[list[SimProcess]], None]:
    watch, failures = cluster.watch, loop.failures

    def check(ran: list[SimProcess]) -> None:
        watch.look(ran)
        if loop.callbacks > MOST_CALLBACKS:
            raise InvariantError(f"{loop.time():.3f} the cluster does not come to rest")
        if watch.violations or failures:
            _raise_first(cluster, loop)

    return check


def _raise_first(cluster: SimCluster, loop: VirtualLoop) -> None:
    for violation in cluster.watch.violations:
        raise InvariantError(violation)
    for context in loop.failures:
        error = context.get("exception")
        raise InvariantError(f"nobody caught: {context['message']}: {error!r}") from error


@contextmanager
def silent_logs() -> Iterator[None]:
    """Turn off the cluster's logs, which take more time than the cluster."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def no_collections() -> Iterator[None]:
    """Turn off the garbage collector, whose times no seed decides, for finalizers run in it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if next(_runs) % RUNS_PER_COLLECTION == 0:
            gc.collect()  # a run leaves megabytes in few objects, too few to start a collection
