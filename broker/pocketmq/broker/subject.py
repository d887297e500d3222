"""What a subject of the broker is: processors, and services that start and stop together."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.runtime.periodic import PeriodicService


class Service:
    """A part that starts and stops with the broker.

    Each step is called once, in this order; all may be left out.

    `load`, `recovered` and `start` are called in the order of the broker's list, `stop` in the
    reverse: what a service needs was begun before it and ends after it.
    """

    async def load(self) -> None:
        """Read the service's files. The store is not open yet.

        Raises:
            DiskError: the broker does not start.
        """

    def recovered(self) -> None:
        """The store is open and recovered: adapt the tables to it."""

    async def start(self) -> None:
        """The broker listens and its address is known: start to work."""

    async def leave(self) -> None:
        """The broker is about to stop. Requests still come; unregister, and refuse new work."""

    async def stop(self) -> None:
        """No request comes any more, and the store is still open: finish and save."""


class Periodically(Service):
    """A `PeriodicService` that runs from the broker's start to its stop.

    Args:
        service: what runs.
        final_run: run it one last time at the stop, so that nothing pending is lost.
    """

    def __init__(self, service: PeriodicService, *, final_run: bool = False) -> None:
        self._service = service
        self._final_run = final_run

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop(final_run=self._final_run)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The parts of one subject; subclasses add attributes that other subjects may use."""

    processors: tuple[object, ...] = ()
    """Objects whose methods `handles` or `handles_batch` marked; they look after overload
    themselves."""
    readers: tuple[object, ...] = ()
    """The same for requests that take messages, which wait in the queue of pulls (B-161, K-4)."""
    tools: tuple[object, ...] = ()
    """The same for requests of people and tools, which wait in a queue of their own (B-161)."""
    services: tuple[Service, ...] = ()
    """In the order in which they begin."""
