"""`GET /events`: the events of the cluster as server-sent events, for as long as a peer listens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from pocketmq.cluster.steering.event_stream import EventStream
from pocketmq.operation.events import Event

KEEP_ALIVE_S = 15.0
"""Real seconds after which a comment is sent, so that a peer that is gone is noticed."""


async def event_feed(events: EventStream) -> AsyncIterator[bytes]:
    """The body of the answer: a comment at once, then each event when it happens."""
    number = 0
    async with events.watch() as watching:
        # Sent at once, so that the client gets its headers before the first event.
        yield b": events\n\n"
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    event = await watching.get()
            # Without events, only this write can show that the client is gone.
            except TimeoutError:
                yield b":\n\n"
                continue
            number += 1
            yield framed(event, number)


def framed(event: Event, number: int) -> bytes:
    """One event as it is sent."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (
        number,
        event.name().encode(),
        msgspec.json.encode(event),
    )
