"""A process's clock, state and events over its own port.

GET_CLOCK (30001), MOVE_CLOCK (30002), ROLE_STATUS (30003), GET_EVENTS (30007).

Every role adds these processors to its dispatcher, so that a supervisor can move a whole cluster in
lock step and ask each process for its state, without knowing its role.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pocketmq.operation.control.requests import (
    ClockResponseHeader,
    GetEventsRequestHeader,
    GetEventsResponseHeader,
    MoveClockRequestHeader,
)
from pocketmq.operation.events.log import EventLog
from pocketmq.operation.events.recording import encode_line
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles
from pocketmq.protocol.errors import BadRequestError
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.errors import ClockStuckError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.tasks import TaskOwner

_REAL = SystemClock()


def real_us() -> int:
    """Microseconds on a clock that never goes back, the same for all processes of a machine."""
    return int(_REAL.monotonic() * 1_000_000)


def event_log(by: str, clock: Clock, *, always: bool) -> EventLog:
    """The events of a role process, for GET_EVENTS.

    Args:
        by: Its name.
        clock: Of its protocol time.
        always: From the start on, not only while somebody asks.
    """
    return EventLog(by, clock.time_ms, real_us, always=always)


class ControlProcessor:
    """Answers the control requests of one process.

    Args:
        clock: The clock that the role runs on.
        status: Readiness and figures of the role, text by text; called once per ROLE_STATUS.
        events: What the role leaves its events in; only an `EventLog` can be asked for them.
    """

    def __init__(
        self,
        clock: Clock,
        status: Callable[[], Mapping[str, str]],
        events: EventSink = NO_EVENTS,
    ) -> None:
        self._events = events
        self._clock = clock
        self._status = status
        self._tasks = TaskOwner("control")

    @handles(RequestCode.GET_CLOCK)
    def get_clock(self, _peer: Peer, request: Command) -> Reply:
        """The time here, and the earliest moment at which something falls due."""
        return request.reply(self._clock_header())

    @handles(RequestCode.MOVE_CLOCK)
    def move_clock(self, peer: Peer, request: Command) -> Reply:
        """Start to move the clock; the answer goes out when everything that was due has settled."""
        clock = self._clock
        if not isinstance(clock, ManualClock):
            raise BadRequestError(
                "this process uses the real clock, which cannot be moved; start the process with "
                "--clock manual to move its clock",
                code=ResponseCode.ILLEGAL_OPERATION,
            )
        header = request.header(MoveClockRequestHeader)
        time_ms = header.time_ms
        # Note frozen processes first: they never answer, and the move would wait for them for ever.
        clock.note_frozen((header.frozen or "").split(";"))
        # A task, as a move may take long: the connection serves other requests meanwhile.
        self._tasks.start(self._move(clock, time_ms, peer, request), name=f"move to {time_ms}")
        return None

    @handles(RequestCode.ROLE_STATUS)
    def role_status(self, _peer: Peer, request: Command) -> Reply:
        """What the role says of itself."""
        body = KVTable(table=dict(self._status()))
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.GET_EVENTS)
    def get_events(self, _peer: Peer, request: Command) -> Reply:
        """What happened here since an earlier question; the first one has events made at all."""
        if not isinstance(self._events, EventLog):
            raise BadRequestError("nobody keeps events here", code=ResponseCode.ILLEGAL_OPERATION)
        # An answer has some thousand events at most; clients go on with its `last`.
        reading = self._events.read(request.header(GetEventsRequestHeader).after)
        lines = b"".join(map(encode_line, reading.events))
        header = GetEventsResponseHeader(
            missed=reading.missed, last=reading.last, now_us=reading.now_us
        )
        return request.reply(header, lines)

    async def stop(self) -> None:
        """Give up moves under way; their callers see the connection end."""
        await self._tasks.stop()

    async def _move(self, clock: ManualClock, time_ms: int, peer: Peer, request: Command) -> None:
        try:
            await clock.move_to(time_ms)
        except ClockStuckError as exc:
            # Names the busy tasks; the process itself is well, only its time did not settle.
            peer.reply(request, request.reply(code=ResponseCode.SYSTEM_ERROR, remark=str(exc)))
        except Exception as exc:  # noqa: BLE001 - whatever fails, the mover must not wait for ever
            peer.reply(request, error_reply(peer, request, exc))
        else:
            peer.reply(request, request.reply(self._clock_header()))

    def _clock_header(self) -> ClockResponseHeader:
        clock = self._clock
        # Nobody moves a real clock, so it reports no deadline.
        due = clock.next_due() if isinstance(clock, ManualClock) else None
        return ClockResponseHeader(
            now_ms=clock.time_ms(),
            next_deadline_ms=None if due is None else due.at_ms,
            next_what=None if due is None else due.what,
            manual=isinstance(clock, ManualClock),
        )
