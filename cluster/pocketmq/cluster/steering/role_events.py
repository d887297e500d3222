"""Fetches the events of a cluster's roles and client processes, and of clients in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from pocketmq.cluster.steering.roles import Roles
from pocketmq.operation.control.processor import real_us
from pocketmq.operation.control.requests import GetEventsRequestHeader, GetEventsResponseHeader
from pocketmq.operation.events.event import Event
from pocketmq.operation.events.log import MOST_PER_READ, EventLog
from pocketmq.operation.events.merge import EventMerge
from pocketmq.operation.events.roles import EventsDropped
from pocketmq.operation.events.sink import EventSink
from pocketmq.operation.events.vocabulary import AnyEvent
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

MOST_CLIENTS = 200
"""Clients of this process whose events are kept; the oldest is given up."""

MOST_ROUNDS = 20
"""Questions to one role at a look: it may have more events than an answer holds."""

ANSWER_S = 5.0
"""Real seconds that a role has to answer; one that stands still is not waited for."""


class ClientEvents:
    """The event logs of clients in this process.

    Args:
        is_watched: Whether somebody watches now: then a client tells from its start on.
    """

    def __init__(self, is_watched: Callable[[], bool]) -> None:
        self._is_watched = is_watched
        self.logs: dict[str, EventLog] = {}

    def sink(self, by: str, now_ms: Callable[[], int]) -> EventSink:
        """The sink of a client; a `SinkMaker`, for the option `events` of clients."""
        made = EventLog(by, now_ms, real_us, samples=False)
        # Removed first, so that a client of a known name becomes the youngest again.
        self.logs.pop(by, None)
        self.logs[by] = made
        if self._is_watched():
            # A first read starts the log: it keeps events only while it is read, and the next look
            # may be too late.
            made.read(0)
        while len(self.logs) > MOST_CLIENTS:
            del self.logs[next(iter(self.logs))]
        return made


class RoleEvents:
    """Asks roles for their events while it is open.

    Args:
        roles: Whom to ask.
        clients: Clients of this process.
        own: The cluster's own events, among those of the roles.
    """

    def __init__(self, roles: Roles, clients: ClientEvents, own: EventLog) -> None:
        self._roles = roles
        self._clients = clients
        self._own = own
        self._first = 0
        self._known: dict[str, int] = {}
        """Number of the last event of each source."""
        self.tellers: set[str] = set()
        """Ids of clients in other processes that told events."""
        self._expected: set[str] = set()
        """Roles and client processes that start."""
        self._looked_us = 0
        """When the last look began."""
        self._merge = EventMerge()
        self._remoting = RemotingClient(roles.network, credentials=roles.credentials)
        self._decoder = msgspec.json.Decoder(AnyEvent)

    async def __aenter__(self) -> RoleEvents:
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._remoting.close()

    async def skip(self) -> None:
        """Leave out what has happened so far."""
        self._first = -1
        await self.fetch()
        self._first = 0

    async def fetch(self) -> list[Event]:
        """What happened since the last call, in causal order."""
        names = [name for name in self._roles.names if self._roles.state(name) == "running"]
        began_us = real_us()
        self._expect(set(self._roles.starting), set(names).union(self._roles.clients))
        for name in set(self._roles.names).difference(names):
            # A role that is starting again is waited for.
            if name not in self._expected:
                self._merge.gone(name)
            if self._roles.state(name) == "ended":
                self._known[name] = 0  # its next life counts from the beginning
        addresses, clients = self._roles.addresses, self._roles.clients
        # All at once, as a role that stands still costs its whole time limit.
        await asyncio.gather(
            *(self._fetch(name, addresses[name], is_client=False) for name in names),
            *(self._fetch(name, address, is_client=True) for name, address in clients.items()),
        )
        for by, each in list(self._clients.logs.items()):
            self._read(f"client {by}", each)
        self._read("cluster", self._own)
        # Sources are dropped if their client has ended or their log was given up.
        for source in set(self._known).difference(self._roles.names, clients, ["cluster"]):
            if source.removeprefix("client ") not in self._clients.logs:
                del self._known[source]
                self._merge.gone(source)
        # The time before the requests: events from during them are waited for next time.
        self._looked_us = began_us
        self._expect_new({*names, *clients})
        return self._merge.ready()

    def _expect(self, starting: set[str], running: set[str]) -> None:
        """Wait for those that start: what they tell first is older than what others tell then.

        They were not there at the last look, and may have told something since.
        """
        for name in starting:
            self._merge.expect(name, self._looked_us)
        for name in self._expected.difference(starting, running):  # it did not come up
            self._merge.gone(name)
        self._expected = starting

    def _expect_new(self, asked: set[str]) -> None:
        """Wait for those that came while others were asked, too."""
        names = {name for name in self._roles.names if self._roles.state(name) == "running"}
        new = names.union(self._roles.starting, self._roles.clients).difference(asked)
        for name in new:
            self._merge.expect(name, self._looked_us)
        self._expected |= new

    def _read(self, source: str, events: EventLog) -> None:
        reading = events.read(self._known.get(source, self._first))
        self._known[source] = reading.last
        self._merge.took(source, reading.events, reading.now_us)
        self._tell_missed(source, reading.missed)

    async def _fetch(self, name: str, address: str, *, is_client: bool) -> None:
        try:
            for _ in range(MOST_ROUNDS):
                events = await self._ask(name, address, is_client=is_client)
                if is_client:
                    self.tellers.update(each.by for each in events)
                # After an answer that is not full there is nothing more to ask for.
                if len(events) < MOST_PER_READ:
                    return
        except (PocketMQError, TimeoutError, msgspec.DecodeError) as exc:
            # Events of the others must not wait for those of this role.
            self._merge.gone(name)
            log.debug("events.not_fetched", role=name, reason=str(exc))

    async def _ask(self, name: str, address: str, *, is_client: bool) -> list[Event]:
        """One question; there may be more events if so many come as an answer may have."""
        after = self._known.get(name, self._first)
        async with asyncio.timeout(ANSWER_S):
            reply = expect(await self._remoting.call(address, GetEventsRequestHeader(after=after)))
        header = reply.header(GetEventsResponseHeader)
        told: list[Event] = list(self._decoder.decode_lines(reply.body_view))
        if not is_client:  # a slave says its broker's name, which its master has too
            told = [e if e.by == name else msgspec.structs.replace(e, by=name) for e in told]
        self._known[name] = header.last
        self._merge.took(name, told, header.now_us)
        self._tell_missed(name, header.missed)
        return told

    def _tell_missed(self, source: str, missed: int) -> None:
        if missed:
            dropped = EventsDropped(*self._own.stamp(), of=source, count=missed)
            self._own.emit(dropped)
