"""Tells an application when topics have other queues than before (L-1f)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from pocketmq.client.routes import RouteTable
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import PeriodicService

log = structlog.get_logger()

CHECK_S: Final = 30.0
FIRST_CHECK_S: Final = 10.0

QueuesListener = Callable[[str, Sequence[MessageQueue]], Any]
"""`listener(topic, queues)`: the topic has other queues now."""


class QueuesWatch:
    """Compares the routes of the topics that somebody listens to with what they were.

    Args:
        group: In logs.
        clock: Every 30 s of it the routes are looked at.
        routes: Where the topics' queues are.
    """

    def __init__(self, group: str, clock: Clock, routes: RouteTable) -> None:
        self._group = group
        self._listeners: dict[str, tuple[QueuesListener, list[MessageQueue]]] = {}
        self._routes = routes
        self._service = PeriodicService(
            f"topics of {group}", clock, CHECK_S, self._look, initial_delay_s=FIRST_CHECK_S
        )

    def listen(self, topic: str, listener: QueuesListener) -> None:
        """Tell `listener` from now on; it replaces the topic's former one."""
        self._listeners[topic] = (listener, self._queues(topic))

    def start(self) -> None:
        """Begin to look."""
        self._service.start()

    async def stop(self) -> None:
        """Look no more."""
        await self._service.stop()

    def _look(self) -> None:
        for topic, (listener, before) in list(self._listeners.items()):
            now = self._queues(topic)
            if now != before:
                self._listeners[topic] = (listener, now)
                try:
                    listener(topic, now)
                except Exception:  # a listener's bug must not end the watch
                    log.exception("queues_listener.failed", group=self._group, topic=topic)

    def _queues(self, topic: str) -> list[MessageQueue]:
        return list(self._routes.subscribe.get(topic, ()))
