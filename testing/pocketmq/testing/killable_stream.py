"""A byte stream that can be reset from outside, as the death of its process would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class KillableStream(asyncio.Protocol):
    """Passes everything on to the protocol that it stands in front of.

    Args:
        inner: reads the stream.
        on_change: called when it is open, and when it is closed.
    """

    def __init__(
        self, inner: asyncio.Protocol, on_change: Callable[[KillableStream], object]
    ) -> None:
        self._inner = inner
        self._on_change = on_change
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to reset."""
        return self._transport is not None

    def abort(self) -> None:
        """Reset the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)
        self._on_change(self)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        # asyncio closes the transport at an end of file unless the inner protocol returns true.
        return self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        # Before `_on_change`, which takes a stream with a transport for an open one.
        self._transport = None
        self._inner.connection_lost(exc)
        self._on_change(self)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
