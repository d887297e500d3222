"""One seed, one run. Start reading here.

scenario(seed)      what will happen                          scenario.py, pure
VirtualLoop         time that jumps, processes that die       loop.py
SimCluster          production's classes on these seams       cluster.py
ledgers             what must hold after every step           invariants.py, pure
"""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import process_time

import structlog

from pocketmq.cluster.simulation.cluster import SimCluster
from pocketmq.cluster.simulation.invariants import InvariantError
from pocketmq.cluster.simulation.loop import SimProcess, VirtualLoop
from pocketmq.cluster.simulation.scenario import Kind, Scenario, scenario
from pocketmq.cluster.simulation.trace import Trace

DRAIN_S = 240.0

REPEATING = {
    Kind.RESET, Kind.CRASH, Kind.VANISH, Kind.PARTITION, Kind.DELAY, Kind.BROKER_CRASH,
    Kind.BROKER_RESTART, Kind.LEAVE, Kind.JOIN,
}  # fmt: skip
"""After one of these a message may be delivered again, or an answer may have been lost."""


@dataclass(slots=True)
class Result:
    """What came of a run."""

    seed: int
    digest: str = ""
    violation: str | None = None
    story: list[str] = field(default_factory=list)
    """The last lines of the trace."""
    stats: dict[str, int] = field(default_factory=dict)
    virtual_s: float = 0.0
    real_s: float = 0.0
    """Processor seconds that it took."""

    @property
    def replay(self) -> str:
        """The command that repeats this run."""
        return f"python scripts/simulate.py --seed {self.seed} --trace"


def run(
    seed: int,
    *,
    plan: Scenario | None = None,
    sink: Callable[[str], object] | None = None,
) -> Result:
    """Run a seed, or another plan under its name.

    Args:
        seed: Decides everything.
        plan: In place of the seed's scenario.
        sink: Gets each line of the trace.
    """
    plan = plan or scenario(seed)
    result = Result(seed)
    began_at = process_time()
    state = random.getstate()
    random.seed(seed)  # production code draws from the module's generator
    loop = VirtualLoop()
    trace = Trace(loop.time, sink)
    with silent_logs(), no_collections():
        cluster = SimCluster(plan, loop, random.Random(seed ^ 0x5EED), trace)
        try:
            loop.on_step = _checker(cluster, loop)
            loop.run_until_complete(_life(cluster, plan))
        except InvariantError as exc:
            result.violation = str(exc)
            trace.note("violation", exc)
        finally:
            result.virtual_s = loop.time()
            result.digest = trace.digest
            result.story = list(trace.lines)
            loop.on_step = None
            loop.finish()
    random.setstate(state)
    result.real_s = process_time() - began_at
    progress, ownership = cluster.progress, cluster.ownership
    result.stats = {
        "sent": cluster.sent,
        "acked": len(progress.acked),
        "deliveries": progress.deliveries,
        "redelivered": progress.redelivered,
        "falls": progress.falls,
        "settled": ownership.checks,
        "notified": ownership.fast_checks,
        "callbacks": loop.callbacks,
    }
    return result


async def _life(cluster: SimCluster, plan: Scenario) -> None:
    await cluster.start()
    for event in plan.events:
        await cluster.clock.sleep(max(0.0, event.at_s - cluster.loop.time()))
        cluster.apply(event)
    await cluster.clock.sleep(max(0.0, plan.duration_s - cluster.loop.time()))
    await cluster.drain(DRAIN_S)
    dead = cluster.dead_letters()
    lost = cluster.progress.missing(dead)
    if lost:
        raise InvariantError(f"lost although acknowledged: {lost[:10]} ({len(lost)})")
    if Kind.BROKER_CRASH not in cluster.kinds:  # or delayed messages are delivered again (B-94)
        cluster.progress.check_copies(exactly=not cluster.kinds & REPEATING)
    spared = [key for key in dead if not key.endswith("!")]
    if spared:
        raise InvariantError(f"dead letters that had not failed 17 times: {spared[:10]}")
    if not cluster.kinds & REPEATING and len(dead) != len(set(dead)):
        raise InvariantError(f"dead letters come twice: {sorted(dead)[:10]}")
    _raise_first(cluster, cluster.loop)


def _checker(cluster: SimCluster, loop: VirtualLoop) -> Callable[[list[SimProcess]], None]:
    progress, ownership = cluster.progress.violations, cluster.ownership.violations
    failures = loop.failures

    def check(ran: list[SimProcess]) -> None:
        cluster.look(ran)
        if progress or ownership or failures:
            _raise_first(cluster, loop)

    return check


def _raise_first(cluster: SimCluster, loop: VirtualLoop) -> None:
    for violation in (*cluster.progress.violations, *cluster.ownership.violations):
        raise InvariantError(violation)
    for context in loop.failures:
        error = context.get("exception")
        raise InvariantError(f"nobody caught: {context['message']}: {error!r}") from error


@contextmanager
def silent_logs() -> Iterator[None]:
    """The cluster's own logs cost more than the cluster."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def no_collections() -> Iterator[None]:
    """A collection runs finalizers at moments that no seed decides."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
