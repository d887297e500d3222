"""Runs a seed and writes its events as a recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pocketmq.cluster.recordings.writer import RecordingWriter
from pocketmq.simulation.loop import START_MS
from pocketmq.simulation.play import Result
from pocketmq.simulation.replicas.plan import NAMESERVER as REPLICAS_NAMESERVER
from pocketmq.simulation.replicas.plan import REPLICAS, replica_plan
from pocketmq.simulation.replicas.run import run_replicas
from pocketmq.simulation.runner import run
from pocketmq.simulation.scenario import NAMESERVER, Scenario
from pocketmq.simulation.swarm import scenario


def record_seed(
    seed: int,
    path: Path,
    *,
    plan: Scenario | None = None,
    sink: Callable[[str], object] | None = None,
) -> tuple[Result, int]:
    """Run a seed of clients with a recording; what came of it, and the number of events.

    Args:
        seed: Decides everything.
        path: Of the recording; its index lies beside it.
        plan: A scenario to run instead of the seed's.
        sink: Called with each line of the trace.

    Raises:
        DiskError: It cannot be written there.
    """
    plan = plan or scenario(seed)
    roles = [NAMESERVER, *plan.brokers]
    with RecordingWriter(path, f"seed {seed}", START_MS, roles) as writer:
        result = run(seed, plan=plan, sink=sink, write=writer.write)
    return result, writer.events


def record_replicas(
    seed: int, path: Path, *, sink: Callable[[str], object] | None = None
) -> tuple[Result, int]:
    """The same with a seed of replicas and controllers."""
    roles = [REPLICAS_NAMESERVER, *replica_plan(seed).controllers, *REPLICAS]
    with RecordingWriter(path, f"seed {seed} of replicas", START_MS, roles) as writer:
        result = run_replicas(seed, sink=sink, write=writer.write)
    return result, writer.events
