"""Plays one seed on virtual time, whatever cluster it is about, and keeps what came of it."""

from __future__ import annotations

import gc
import logging
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from time import process_time
from typing import Any, Protocol

import structlog

from pocketmq.operation.events.event import Event
from pocketmq.operation.events.sink import SinkMaker, no_events
from pocketmq.simulation.event_recorder import EventRecorder
from pocketmq.simulation.invariants import InvariantError
from pocketmq.simulation.loop import Check, SimProcess, VirtualLoop
from pocketmq.simulation.own_events import OwnEvents
from pocketmq.simulation.trace import Trace

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


class Watching(Protocol):
    """Observes a cluster."""

    violations: list[str]

    def look(self, ran: list[SimProcess], /) -> None:
        """These processes ran."""


class Simulated(Protocol):
    """A cluster on virtual time."""

    @property
    def loop(self) -> VirtualLoop: ...

    @property
    def watch(self) -> Watching: ...

    @property
    def own_events(self) -> OwnEvents: ...


@dataclass(frozen=True, slots=True)
class Play:
    """What is played: a cluster and its life."""

    cluster: Simulated
    life: Coroutine[Any, Any, None]
    """Starts the cluster, applies what happens to it, and raises `InvariantError` at the end."""
    stats: Callable[[], dict[str, int]]
    """How often the cases occurred that the invariants are about; asked at the end."""


Make = Callable[[VirtualLoop, random.Random, Trace, SinkMaker], Play]


def play(
    seed: int,
    make: Make,
    *,
    switch: str = "",
    sink: Callable[[str], object] | None = None,
    write: Callable[[Event], None] | None = None,
) -> Result:
    """Play a seed.

    Args:
        seed: Decides everything.
        make: Makes the cluster from a loop, a source of chance, a trace, and where events go.
        switch: Which kind of seed it is; see `Result.switch`.
        sink: Called with each line of the trace.
        write: Called with each event of roles and clients, in causal order (docs/events.md).
    """
    result = Result(seed, switch=switch)
    began_at = process_time()
    state = random.getstate()
    random.seed(seed)  # production code draws from the module's generator
    loop = VirtualLoop()
    trace = Trace(loop.time, sink)
    with _silent_logs(), _no_collections():
        played = make(loop, random.Random(seed ^ 0x5EED), trace, _sinks(loop, write))
        try:
            loop.run_checked(played.life, _checker(played.cluster))
        except InvariantError as exc:
            result.violation = str(exc)
            trace.note("violation", exc)
            played.cluster.own_events.violated(exc)
        finally:
            result.virtual_s = loop.time()
            result.digest = trace.digest
            result.story = list(trace.lines)
            loop.finish()
    random.setstate(state)
    result.real_s = process_time() - began_at
    result.stats = played.stats()
    return result


def raise_first(cluster: Simulated) -> None:
    """Raise the first violation that was seen.

    Raises:
        InvariantError: There is one, or an exception that nobody caught.
    """
    for violation in cluster.watch.violations:
        raise InvariantError(violation)
    for context in cluster.loop.failures:
        error = context.get("exception")
        raise InvariantError(f"nobody caught: {context['message']}: {error!r}") from error


def _checker(cluster: Simulated) -> Check:
    loop, watch = cluster.loop, cluster.watch
    violations, failures = watch.violations, loop.failures

    def check(ran: list[SimProcess]) -> None:
        watch.look(ran)
        if loop.callbacks > MOST_CALLBACKS:
            raise InvariantError(
                f"{loop.time():.3f} the cluster has not come to rest after {MOST_CALLBACKS} "
                "callbacks"
            )
        if violations or failures:
            raise_first(cluster)

    return check


def _sinks(loop: VirtualLoop, write: Callable[[Event], None] | None) -> SinkMaker:
    """Where roles and clients leave their events, in virtual time; nowhere without `write`.

    What they tell while the loop is finished is no part of the run.
    """
    if write is None:
        return no_events

    def told(event: Event) -> None:
        if not loop.finishing:
            write(event)

    return EventRecorder(told, lambda: round(loop.time() * 1e6)).sink


@contextmanager
def _silent_logs() -> Iterator[None]:
    """Turn off the cluster's logs, which take more time than the cluster."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        yield
    finally:
        structlog.configure(**before)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Turn off the garbage collector, whose times no seed decides, for finalizers run in it."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        if next(_runs) % RUNS_PER_COLLECTION == 0:
            gc.collect()  # a run leaves megabytes in few objects, too few to start a collection
