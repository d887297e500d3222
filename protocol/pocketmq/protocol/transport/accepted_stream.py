"""`AcceptedStream`: an accepted byte stream that is no remoting frames, and that has its place.

A process accepts so many connections that descriptors are left for files
(`runtime/files/descriptors.py`). A stream that finds no place is hung up on, and its protocol hears
nothing of it.
"""

from __future__ import annotations

import asyncio
from typing import cast

import structlog

from pocketmq.runtime.addresses import address_text
from pocketmq.runtime.files.descriptors import AcceptedConnections

log = structlog.get_logger()


class AcceptedStream(asyncio.Protocol):
    """Stands between a socket and the protocol that reads it.

    Args:
        inner: Reads the stream.
        places: For all that this process accepts.
    """

    def __init__(self, inner: asyncio.Protocol, places: AcceptedConnections) -> None:
        self._inner = inner
        self._places = places
        self._is_refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._is_refused = not self._places.take()
        if not self._is_refused:
            self._inner.connection_made(transport)
            return
        host, port = (transport.get_extra_info("peername") or ("?", 0))[:2]
        log.warning(
            "peer.refused", peer=address_text(host, port), open_connections=self._places.count,
            advice="raise `ulimit -n`, or find out who holds so many connections",
        )  # fmt: skip
        cast(asyncio.Transport, transport).abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._is_refused:
            self._places.give_back()
            self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._is_refused:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return None if self._is_refused else self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()
