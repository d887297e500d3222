"""Records what happens in the demo: `pocketmq demo --record FILE`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Self

from pocketmq.cluster.recordings.writer import RecordingWriter
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.operation.events.event import Event
from pocketmq.runtime.errors import DiskError


class DemoRecording:
    """Writes the events of all processes, during an `async with` block; a `Watcher`.

    Args:
        cluster: Its roles run with `--events`, and its clients will.
        path: Of the recording; its index lies beside it.

    Raises:
        DiskError: It cannot be written there, or could not until the end of the block.
    """

    def __init__(self, cluster: Supervisor, path: Path) -> None:
        roles = RoleProcesses(cluster)
        # Only the control's event stream is used here; it starts and stops nothing.
        self._events = ClusterControl(roles, cluster.spec.clock, events_from_start=True).events
        self._writer = RecordingWriter(path, "demo", roles.time_ms(), roles.names)
        self._failed: DiskError | None = None
        self._stack = contextlib.AsyncExitStack()

    @property
    def events(self) -> int:
        """Written so far."""
        return self._writer.events

    def tell(self, event: Event) -> None:
        """Write an event; an error is raised at the end."""
        # Nothing is written after the first error: a recording with a gap would mislead.
        if self._failed is None:
            try:
                self._writer.write(event)
            except DiskError as exc:
                self._failed = exc

    async def caught_up(self) -> None:
        """Return when everything that had happened before the call is written."""
        await self._events.caught_up()

    async def __aenter__(self) -> Self:
        # The writer closes last, after the stream's final events.
        self._stack.callback(self._writer.close)
        await self._stack.enter_async_context(self._events.telling(self))
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        exc: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        # Not after an error: roles may be gone, and waiting for them would hide the cause.
        if exc is None:
            await self.caught_up()
        await self._stack.aclose()
        if self._failed is not None:
            raise self._failed
