"""PocketMQ's own requests: clock and state of a process, events, figures.

RocketMQ has none of these codes. docs/protocol.md says which role answers which. Those about fault
rules are in `operation/faults/requests.py`.
"""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.bodies.stats import MetricsReport
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.header import Header
from pocketmq.protocol.scalars import Int64


class ClockResponseHeader(Header, kw_only=True):
    """State of a process's clock, in epoch milliseconds."""

    now_ms: Int64
    next_deadline_ms: Int64 | None = None
    next_what: str | None = None
    """The task that waits for it."""
    manual: bool


class GetClockRequestHeader(Header, kw_only=True):
    """GET_CLOCK: the time, and when the process wants to be woken next."""

    CODE: ClassVar[int] = RequestCode.GET_CLOCK
    RESPONSE = ClockResponseHeader


class MoveClockRequestHeader(Header, kw_only=True):
    """MOVE_CLOCK: go to this moment; answered when everything that was due has settled."""

    CODE: ClassVar[int] = RequestCode.MOVE_CLOCK
    RESPONSE = ClockResponseHeader

    time_ms: Int64
    frozen: str | None = None
    """`host:port;host:port` of processes that were frozen: their answers are not waited for."""


class RoleStatusRequestHeader(Header, kw_only=True):
    """ROLE_STATUS: readiness and figures of a process, as text by text."""

    CODE: ClassVar[int] = RequestCode.ROLE_STATUS
    RESPONSE_BODY = KVTable


class GetEventsResponseHeader(Header, kw_only=True):
    """What GET_EVENTS answers; its body has a line of JSON for each event."""

    missed: Int64
    """Events that were forgotten before they were asked for."""
    last: Int64
    """Number of the last event: what to ask after next time."""
    now_us: Int64
    """Real time at the role; later events have at least this `real_us`."""


class GetEventsRequestHeader(Header, kw_only=True):
    """GET_EVENTS: what happened at the role; see docs/events.md."""

    CODE: ClassVar[int] = RequestCode.GET_EVENTS
    RESPONSE = GetEventsResponseHeader

    after: Int64 = 0
    """Events up to this number are known; 0: all that are kept; -1: from now on."""


class GetMetricsRequestHeader(Header, kw_only=True):
    """GET_METRICS: a broker's metrics, as `operation.metrics` declares them."""

    CODE: ClassVar[int] = RequestCode.GET_METRICS
    RESPONSE_BODY = MetricsReport
