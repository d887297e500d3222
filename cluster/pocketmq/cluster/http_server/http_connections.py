"""Which connections a port over HTTP keeps: those that ask nothing whole keep nobody out.

    known     has sent a request that passes the access check, and waits for its answer
    unknown   all others: nothing yet, half a request, no token or a wrong one, between two requests

The head of a request is enough where it shows a token. Without one anybody passes the check, so
only a whole request counts.

Unknown ones have places of their own. Where these are taken, the one that has been unknown longest
is hung up on, so a newcomer always has the time that a head takes. Half a request has a time limit,
and so has an answer that is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import h11
import structlog
from starlette.requests import Request
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.h11_impl import H11Protocol

from pocketmq.runtime.clock import Clock, Timer

log = structlog.get_logger()

HEAD_LIMIT_S: Final = 10.0
"""From the connection's begin, or the answer before, to the end of a request's head."""

BODY_LIMIT_S: Final = 60.0
"""From the end of the head to the end of the body."""

READ_LIMIT_S: Final = 60.0
"""That an answer may wait in memory while its reader takes nothing of it."""

MAX_UNKNOWN: Final = 64
"""Connections that have shown nothing yet."""

MAX_REQUESTS: Final = 100
"""Requests that pass the access check and are not answered yet; further ones are told 503."""

_MISSING: Final = {h11.IDLE: "head", h11.SEND_BODY: "body"}
_LIMIT_S: Final = {"head": HEAD_LIMIT_S, "body": BODY_LIMIT_S}


class HttpConnections:
    """The connections of one port.

    Args:
        knows: Whether a request passes the access check, judged by its head.
        clock: Time limits run on it.
        needs_token: Whether only who has a token passes it.
    """

    def __init__(
        self, knows: Callable[[Request], bool], clock: Clock, *, needs_token: bool
    ) -> None:
        self.knows = knows
        self.clock = clock
        self.needs_token = needs_token
        self._unknown: dict[_Connection, None] = {}
        """In the order in which they became so."""
        self._known: set[_Connection] = set()

    @property
    def unknown(self) -> int:
        """How many have shown nothing, or nothing since the last answer."""
        return len(self._unknown)

    @property
    def known(self) -> int:
        """How many wait for an answer, or for it to be read."""
        return len(self._known)

    @property
    def is_full(self) -> bool:
        """Whether as many requests wait for an answer as may."""
        return len(self._known) >= MAX_REQUESTS

    @property
    def protocol_class(self) -> type[Any]:
        """What uvicorn makes for each connection."""
        return cast(type[Any], partial(_Connection, among=self))

    def is_unknown(self, connection: _Connection) -> None:
        """It is new, or its request is answered."""
        # Removed first, so that it goes to the end of the order: its time counts from now.
        self.has_ended(connection)
        # The oldest is dropped, so that somebody who keeps many connections open keeps nobody out.
        if len(self._unknown) >= MAX_UNKNOWN:
            oldest = next(iter(self._unknown))
            log.debug("control.crowded", peer=oldest.client, unknown=len(self._unknown))
            self.has_ended(oldest)
            oldest.hang_up()
        self._unknown[connection] = None

    def is_known(self, connection: _Connection) -> None:
        """Its request passes the access check."""
        self._unknown.pop(connection, None)
        self._known.add(connection)

    def hang_up_all(self) -> None:
        """End every connection at once, for the end of the server."""
        for connection in [*self._unknown, *self._known]:
            connection.hang_up()

    def has_ended(self, connection: _Connection) -> None:
        """It counts no more."""
        self._unknown.pop(connection, None)
        self._known.discard(connection)


class _Connection(H11Protocol):
    """One connection, whose half requests have a time limit."""

    def __init__(self, *arguments: Any, among: HttpConnections, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._among = among
        self._missing: str | None = None
        """The part of a request that is waited for."""
        self._limit: Timer | None = None
        self._unread: Timer | None = None
        self._passes = False
        """Its request passes the access check, and is not counted as known yet."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._among.is_unknown(self)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        # Timers would hold this connection, and close a transport that is gone.
        self._wait_for(None)
        self._stop_unread()
        self._among.has_ended(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        # uvicorn makes a new cycle for each request, so a change shows a new request.
        before = self.cycle
        # Chosen before uvicorn reads the request, which it passes to the present application.
        self.app = service_unavailable if self._among.is_full else self.config.loaded_app
        super().handle_events()
        if self.cycle is not before:
            # Judged once, with the head; the body cannot change it.
            self._passes = self._among.knows(Request(dict(self.scope)))
        # Without a token everybody passes, so only a complete request gains a place.
        is_whole = self.conn.their_state is not h11.SEND_BODY
        if self._passes and (is_whole or self._among.needs_token):
            self._passes = False
            self._among.is_known(self)
        self._look()

    def on_response_complete(self) -> None:
        self._passes = False
        if not self.transport.is_closing():
            self._among.is_unknown(self)  # before the next request, which may be here already
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_unread()
        clock = self._among.clock
        self._unread = clock.call_at(clock.monotonic() + READ_LIMIT_S, self._expire_unread)

    def resume_writing(self) -> None:
        self._stop_unread()
        super().resume_writing()

    def hang_up(self) -> None:
        """End it at once: what it was told may stay unread."""
        self._wait_for(None)
        self._stop_unread()
        self.transport.abort()

    def _look(self) -> None:
        """See what is missing now; more bytes of the same part win no time."""
        # Between requests h11 waits for a head, within one for the rest of the body.
        missing = None if self.transport.is_closing() else _MISSING.get(self.conn.their_state)
        # A new limit is set only when another part is missing, so single bytes gain no time.
        if missing != self._missing:
            self._wait_for(missing)

    def _wait_for(self, missing: str | None) -> None:
        self._missing = missing
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        if missing is not None:
            clock = self._among.clock
            self._limit = clock.call_at(clock.monotonic() + _LIMIT_S[missing], self._expire)

    def _expire(self) -> None:
        log.info("control.stalled", peer=self.client, missing=self._missing)
        self.hang_up()

    def _expire_unread(self) -> None:
        log.info("control.unread", peer=self.client)
        self.hang_up()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
