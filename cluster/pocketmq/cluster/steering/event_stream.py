"""The events of a cluster, as long as somebody watches; without a watcher nothing is asked or kept.

The roles and the clients of this process tell what happens to them; every `LOOK_S` they are asked.
What they cannot tell is looked at: roles that end, a clock that is moved, other clients' queues.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

import structlog

from pocketmq.cluster.steering.cluster_view import ClusterView
from pocketmq.cluster.steering.owned_queues import Members, members_of, rebalanced
from pocketmq.cluster.steering.role_events import ClientEvents, RoleEvents
from pocketmq.operation.control.processor import real_us
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.groups import MemberSilent, OfMembership, RouteLearned
from pocketmq.operation.events.log import EventLog
from pocketmq.operation.events.roles import (
    BrokerForgotten,
    BrokerRegistered,
    ClockMoved,
    EventsDropped,
    FaultBegan,
    FaultEnded,
    RoleStarted,
    RoleStopped,
)
from pocketmq.operation.events.sink import EventSink
from pocketmq.operation.faults.rule import FaultRule
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

LOOK_S = 0.2
"""Real seconds between two questions to the roles."""

MEMBERS_S = 1.0
"""Real seconds between two questions to the members of groups, as long as something changes."""

QUIET_MEMBERS_S = 5.0
"""So long something changes after what makes members share anew; then they are asked so often."""

STIRRING = (OfMembership, MemberSilent, BrokerRegistered, BrokerForgotten, ClockMoved, RoleStopped)
"""Events after which members may come to own other queues."""

MOST_ROUTES = 10_000
"""Of topics at clients, kept for who watches later; the oldest is given up."""

MOST_UNREAD = 50_000
"""Events that a slow watcher may be behind; older ones are lost to it, and it is told so."""


class Watcher(Protocol):
    """Whom events are told."""

    def tell(self, event: Event) -> None:
        """One more event. Must not raise: others are told after it."""


class Watching:
    """What one watcher has not read yet; a `Watcher`.

    Args:
        own: Numbers what it is told itself.
    """

    def __init__(self, own: EventSink) -> None:
        self._own = own
        self._events: asyncio.Queue[Event] = asyncio.Queue(MOST_UNREAD)
        self._missed = 0
        """Events that were lost, because it read too slowly."""

    def tell(self, event: Event) -> None:
        """One more event."""
        # The oldest event is dropped, as a late watcher wants to see the present.
        if self._events.full():
            self._events.get_nowait()
            self._missed += 1
        self._events.put_nowait(event)

    async def get(self) -> Event:
        """The next event; `EventsDropped` when some before it were lost."""
        # Reported in place of the lost events, before those that followed.
        if self._missed:
            missed, self._missed = self._missed, 0
            return EventsDropped(*self._own.stamp(), of="the whole cluster", count=missed)
        return await self._events.get()


class EventStream:
    """Hands events to watchers.

    Args:
        view: The cluster.
        from_start: The roles keep events from their start on, and the first watcher gets them.
    """

    def __init__(self, view: ClusterView, *, from_start: bool = False) -> None:
        self._view = view
        self._from_start = from_start
        self._watchers: list[Watcher] = []
        self._looking: asyncio.Task[None] | None = None
        self._clock = SystemClock()
        self._states: dict[str, str] = {}
        """Roles, as they were told."""
        self._acted_on: set[str] = set()
        """Roles that are being stopped or started: what they will be is told already."""
        self.routes: OrderedDict[tuple[str, str], RouteLearned] = OrderedDict()
        """(client id, topic) -> what was told last: nobody can be asked for it."""
        self._time_ms = 0
        self._looks = 0
        self._looked = asyncio.Event()
        self._own = EventLog("cluster", view.time_ms, real_us, samples=False)
        self._starting = asyncio.Lock()
        self.clients = ClientEvents(lambda: self.is_watched)
        """For clients of this process: `Producer(..., events=control.events.clients.sink)`."""

    @property
    def is_watched(self) -> bool:
        """Whether anybody gets events now."""
        return bool(self._watchers)

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[Watching]:
        """The events from now on, for the length of a block."""
        watching = Watching(self._own)
        async with self.telling(watching):
            yield watching

    @contextlib.asynccontextmanager
    async def telling(self, watching: Watcher) -> AsyncIterator[None]:
        """Tell a watcher the events from now on, for the length of a block."""
        async with self._starting:  # two first watchers at once would start a task each
            if self._looking is None:
                roles = RoleEvents(self._view.roles, self.clients, self._own)
                self._time_ms = await self._view.refresh_time()
                self._states = {each: self._state(each) for each in self._view.roles.names}
                members = await members_of(self._view)
                # Otherwise the first watcher would get all that the roles have kept since their
                # start.
                if not self._from_start:
                    await roles.skip()
                # Before the task begins: otherwise its first events would reach nobody.
                self._watchers.append(watching)
                looking = self._look_on(roles, members)
                self._looking = asyncio.get_running_loop().create_task(looking, name="event stream")
            else:
                self._watchers.append(watching)
        try:
            yield
        finally:
            self._watchers.remove(watching)
            # Without watchers the roles keep no events, so the requests end with the last watcher.
            if not self._watchers:
                await self.close()

    async def caught_up(self) -> None:
        """Return when watchers were told everything that had happened before the call.

        Not while nobody watches: then nothing is looked at.
        """
        wanted = self._looks + 2  # the look that is under way may have begun before
        while self._looks < wanted:
            self._looked.clear()
            await self._looked.wait()

    @contextlib.contextmanager
    def acting(self, role: str, state: str) -> Iterator[None]:
        """For the time in which a role is made `running`, `frozen` or `ended`."""
        # Reported before the action, so that its cause precedes the events that follow.
        self._tell_state(role, state)
        self._acted_on.add(role)
        try:
            yield
        finally:
            self._acted_on.discard(role)

    def fault_began(self, rule: FaultRule) -> None:
        """A fault rule holds."""
        if self.is_watched:
            stamp = self._own.stamp()
            event = FaultBegan(*stamp, rule=rule.id, do=rule.do, role=rule.role, other=rule.other)
            self._own.emit(event)

    def fault_ended(self, rule_id: str) -> None:
        """A fault rule was taken back."""
        if self.is_watched:
            self._own.emit(FaultEnded(*self._own.stamp(), rule=rule_id))

    async def close(self) -> None:
        """Look no more."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])

    async def _look_on(self, roles: RoleEvents, members: Members) -> None:
        asked_at = stirred_at = self._clock.monotonic()
        async with roles:
            while True:
                await self._clock.sleep(LOOK_S)
                now = members
                try:
                    # After an error the members stay as they were, and the events below are still
                    # reported.
                    await self._look()
                    passed_s = self._clock.monotonic() - asked_at
                    # Asking the members costs most, so it is done less often while nothing changes.
                    is_quiet = asked_at - stirred_at >= QUIET_MEMBERS_S
                    if passed_s >= (QUIET_MEMBERS_S if is_quiet else MEMBERS_S):
                        now = await members_of(self._view)
                        asked_at = self._clock.monotonic()
                except PocketMQError as exc:  # a role is on its way up or down
                    log.debug("events.look_failed", reason=str(exc))
                for event in await roles.fetch():
                    if isinstance(event, STIRRING):
                        stirred_at = self._clock.monotonic()
                    if isinstance(event, RouteLearned):
                        # Kept for later watchers: a client reports its route only when it learns
                        # it.
                        self._note_route(event)
                    for watching in self._watchers:
                        watching.tell(event)
                # Who tells it itself is known only now that its events are fetched.
                tell_themselves = roles.tellers.union(self.clients.logs)
                # Into this stream's own log, which the next round reads with a present stamp.
                for event in rebalanced(now, members, tell_themselves, self._own):
                    self._own.emit(event)
                members = now
                self._looks += 1
                self._looked.set()

    def _note_route(self, event: RouteLearned) -> None:
        self.routes[event.client_id, event.topic] = event
        # The oldest route is the least likely to be needed.
        if len(self.routes) > MOST_ROUTES:
            self.routes.popitem(last=False)

    async def _look(self) -> None:
        for role in self._view.roles.names:
            if role not in self._acted_on:
                self._tell_state(role, self._state(role))
        before_ms, self._time_ms = self._time_ms, await self._view.refresh_time()
        # On real time the clock always moves, which is no event.
        if self._view.clock == "manual" and self._time_ms != before_ms:
            self._own.emit(ClockMoved(*self._own.stamp(), from_ms=before_ms))

    def _state(self, role: str) -> str:
        return self._view.roles.state(role)

    def _tell_state(self, role: str, state: str) -> None:
        if not self.is_watched or self._states.get(role) == state:
            return
        self._states[role] = state
        stamp = self._own.stamp()
        if state == "running":
            self._own.emit(RoleStarted(*stamp, role=role))
        else:
            self._own.emit(RoleStopped(*stamp, role=role, how=state))
