"""What an event does to a cluster, where that depends on what happens there already."""

from __future__ import annotations

from dataclasses import replace

from pocketmq.simulation.runner import run
from pocketmq.simulation.scenario import Event, Kind
from pocketmq.simulation.swarm import scenario


def test_a_broker_that_stops_already_is_not_stopped_a_second_time() -> None:
    plan = replace(
        scenario(61664),
        events=(
            Event(60.0, Kind.HUNG_DISK, "b", lasts_s=12.0),
            Event(63.0, Kind.BROKER_RESTART, "b", lasts_s=30.0),
            Event(64.0, Kind.BROKER_RESTART, "b", lasts_s=2.0),
        ),
    )
    lines: list[str] = []
    result = run(61664, plan=plan, sink=lines.append)
    assert result.violation is None
    stopped = [line for line in lines if "event" in line and "restart" in line]
    assert len(stopped) == result.stats[Kind.BROKER_RESTART.value] == 1
