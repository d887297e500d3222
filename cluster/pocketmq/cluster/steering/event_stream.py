"""The events of a cluster, as long as somebody watches; without a watcher nothing is asked or kept.

A cluster is looked at every `LOOK_S`, and what differs from the look before is an event. Faults
that fired are told by the roles themselves, none is missed between two looks.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import structlog

from pocketmq.cluster.steering.cluster_view import ClusterView
from pocketmq.protocol.events.event import Event
from pocketmq.protocol.events.log import EventLog
from pocketmq.protocol.events.roles import FaultFired
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

if TYPE_CHECKING:
    from pocketmq.cluster.steering.cluster_control import ClusterControl

log = structlog.get_logger()

LOOK_S = 0.2
"""Real seconds between two looks at the cluster."""


def real_us() -> int:
    """Microseconds on the machine's clock that never goes back; all its processes see the same."""
    return int(_REAL.monotonic() * 1_000_000)


_REAL = SystemClock()

MOST_UNREAD = 1000
"""Events that a slow watcher may be behind; older ones are lost to it."""


class EventStream:
    """Hands events to watchers.

    Args:
        control: The cluster.
    """

    def __init__(self, control: ClusterControl) -> None:
        self._control = control
        self._watchers: list[asyncio.Queue[Event]] = []
        self._looking: asyncio.Task[None] | None = None
        self._clock = SystemClock()
        self._log = EventLog("cluster", control.time_ms, real_us)

    @property
    def is_watched(self) -> bool:
        """Whether anybody gets events now."""
        return bool(self._watchers)

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[asyncio.Queue[Event]]:
        """A queue of the events from now on, for the length of a block."""
        queue: asyncio.Queue[Event] = asyncio.Queue(MOST_UNREAD)
        if self._looking is None:
            view = await ClusterView.of(self._control)
            await self._control.faults.news()  # those from before are none
            looking = self._look_on(view)
            self._looking = asyncio.get_running_loop().create_task(looking, name="event stream")
        self._watchers.append(queue)
        try:
            yield queue
        finally:
            self._watchers.remove(queue)
            if not self._watchers:
                await self.close()

    def emit(self, event: Event) -> None:
        """Tell all watchers."""
        for queue in self._watchers:
            if queue.full():
                queue.get_nowait()
            queue.put_nowait(event)

    async def close(self) -> None:
        """Look no more."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.wait([looking])

    async def _look_on(self, view: ClusterView) -> None:
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                view = await self._look(view)
            except PocketMQError as exc:  # a role is on its way up or down; the next look sees it
                log.debug("events.look_failed", reason=str(exc))

    async def _look(self, before: ClusterView) -> ClusterView:
        now = await ClusterView.of(self._control)
        for event in now.since(before, self._log):
            self.emit(event)
        for each in await self._control.faults.news():
            self.emit(
                FaultFired(
                    *self._log.stamp()._replace(at_ms=each.at_ms),
                    rule=each.rule,
                    do=each.do,
                    role=each.role,
                    code=each.code,
                    topic=each.topic,
                    group=each.group,
                    path=each.path,
                )
            )
        return now
