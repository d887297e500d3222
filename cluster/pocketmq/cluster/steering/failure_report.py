"""What the report of a failed test says about its cluster."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.role_events import RoleEvents
from pocketmq.operation.control.processor import real_us
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.log import EventLog
from pocketmq.operation.events.messages import PullHeld, PullWoken, StoreFlushed
from pocketmq.operation.events.roles import EventsCounted

LOG_LINES = 15
"""Of each role."""

TIMELINE_LINES = 60

PERIODIC = (PullHeld, PullWoken, StoreFlushed, EventsCounted)
"""Events that come again and again while nothing happens; they would push the others out."""


async def told_events(control: ClusterControl) -> list[Event]:
    """What the running roles kept since they were started, in causal order; `PERIODIC` left out."""
    own = EventLog("cluster", control.time_ms, real_us, samples=False)
    # A reader of its own gets everything from the start, and takes nothing from watchers.
    async with RoleEvents(control.roles, control.events.clients, own) as roles:
        return [each for each in await roles.fetch() if not isinstance(each, PERIODIC)]


def failure_report(
    control: ClusterControl, events: Iterable[Event] = (), *, since_us: int = 0
) -> str:
    """Where the files are, what was done and what happened, and the end of each role's log.

    Args:
        control: The cluster.
        events: See `told_events`.
        since_us: Real time before which the timeline has nothing: other tests were at work then.
    """
    lines = [(act.real_us, f"{act.at_ms} ms: test: {act.what}") for act in control.timeline]
    lines += [(each.real_us, _line(each)) for each in events]
    lines.sort(key=lambda line: line[0])
    parts = [f"stores and logs: {control.roles.data}", "-- timeline"]
    # Cut after the selection, so that other tests' events take no lines.
    parts += [text for at_us, text in lines if at_us >= since_us][-TIMELINE_LINES:]
    for name in control.roles.names:
        tail = control.roles.log_tail(name, LOG_LINES)
        parts += [f"-- {name} ({control.roles.state(name)})", tail or "(no log lines)"]
    return "\n".join(parts)


def _line(event: Event) -> str:
    given = ((name, getattr(event, name)) for name in event.field_names())
    facts = [f"{name}={value}" for name, value in given if value not in (None, "", [], {})]
    return " ".join([f"{event.at_ms} ms: {event.by}: {event.name()}", *facts])
