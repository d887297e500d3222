"""A simulated run recorded: the events say what the trace and the invariants saw."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pocketmq.cluster.recordings.reader import open_index, open_recording
from pocketmq.operation.events import Event
from pocketmq.operation.events.messages import MessageConsumed, MessageStored
from pocketmq.operation.events.roles import (
    LeaderElected,
    MasterElected,
    RoleChanged,
    RoleStarted,
)
from pocketmq.simulation.recording import record_replicas, record_seed
from pocketmq.simulation.replicas.plan import REPLICAS, replica_plan
from pocketmq.simulation.replicas.run import run_replicas
from pocketmq.simulation.replicas.schedules import schedule
from pocketmq.simulation.runner import run
from support.cluster_state import ClusterState
from support.event_order import in_order

SEEDS = (17, 23)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recorded_run_is_the_same_run(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    trace: list[str] = []
    result, number = record_seed(seed, path, sink=trace.append)
    assert result.digest == run(seed).digest
    recording = open_recording(path)
    assert recording.problems == []
    events = recording.events
    assert len(events) == number
    index, _ = open_index(path)
    assert index is not None
    assert sum(frame.events for frame in index.frames) == number
    assert [each.real_us for each in events] == sorted(each.real_us for each in events)
    in_order(events, "T")
    consumed_as_traced(events, trace)
    stored_as_acknowledged(events, trace)
    state = ClusterState().take_all(events)
    again = ClusterState()
    for frame in index.frames:  # as a page loads it, frame by frame
        begin, end = frame.offset, frame.offset + frame.size
        again.take_all(line.event for line in recording.lines if begin <= line.offset < end)
    assert again == state
    assert set(state.roles.values()) <= {"running", "ended"}


def test_two_recordings_of_a_seed_are_equal(tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    record_seed(17, one)
    record_seed(17, two)
    assert one.read_bytes() == two.read_bytes()


PLACE = re.compile(r"brokerName=(\w+), queueId=(\d+)\] (\d+)")


def places(trace: list[str], word: str) -> set[tuple[str, int, int]]:
    """(broker, queue, offset) of the lines of a kind."""
    return {
        (found[1], int(found[2]), int(found[3]))
        for line in trace
        if line.split()[1] == word and (found := PLACE.search(line))
    }


def consumed_as_traced(events: list[Event], trace: list[str]) -> None:
    """A listener that returned was called before, with this very message."""
    told = {
        (event.broker, event.queue, event.offset)
        for event in events
        if isinstance(event, MessageConsumed) and event.group.startswith("G")
    }
    assert told
    assert told <= places(trace, "consume")


def stored_as_acknowledged(events: list[Event], trace: list[str]) -> None:
    """What the producer was told to be stored was told to be stored."""
    stored = {
        (event.broker, event.queue, event.offset)
        for event in events
        if isinstance(event, MessageStored)
    }
    delayed = {(broker, offset) for broker, _, offset in stored}
    acked = places(trace, "acked")
    assert acked
    for broker, queue, offset in acked:
        assert (broker, queue, offset) in stored or (broker, offset) in delayed


def test_a_recorded_run_of_replicas_tells_of_its_elections(tmp_path: Path) -> None:
    seed, path = 3, tmp_path / "replicas.jsonl"
    result, number = record_replicas(seed, path)
    assert result.digest == run_replicas(seed).digest
    recording = open_recording(path)
    assert recording.problems == []
    assert len(recording.events) == number
    kinds = {each.role: each.kind for each in recording.events if isinstance(each, RoleStarted)}
    controllers = replica_plan(seed).controllers
    assert {name for name, kind in kinds.items() if kind == "controller"} == set(controllers)
    assert {name for name, kind in kinds.items() if kind == "broker"} == set(REPLICAS)
    leaders = [each for each in recording.events if isinstance(each, LeaderElected)]
    masters = [each for each in recording.events if isinstance(each, MasterElected)]
    changes = [each for each in recording.events if isinstance(each, RoleChanged)]
    assert leaders[0].controller in controllers
    assert [each.epoch for each in masters] == sorted(each.epoch for each in masters)
    assert leaders[0].real_us < masters[0].real_us
    assert masters[0].why == "first"
    assert "SLAVE" in {each.role for each in changes}
    assert {"SYNC_MASTER", "ASYNC_MASTER"} & {each.role for each in changes}


@pytest.mark.parametrize(("history", "why"), [("quiet", "closed"), ("lost for good", "silent")])
def test_an_election_says_why(history: str, why: str) -> None:
    events: list[Event] = []
    run_replicas(0, plan=schedule(history), write=events.append)
    assert [each.why for each in events if isinstance(each, MasterElected)] == ["first", why]
