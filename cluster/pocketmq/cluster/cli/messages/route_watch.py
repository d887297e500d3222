"""Prints what a consumer without messages is waiting for: once, and after each change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pocketmq.client import Admin
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.errors import NoNameServerError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

LOOK_S = 1.0
"""Real seconds between two checks, even in a cluster on a manual clock."""

Say = Callable[[str], None]


class RouteWatch:
    """Turns the state of a topic's route into lines to print; None while it does not change."""

    def __init__(self, topic: str, nameservers: Sequence[str]) -> None:
        self._topic = topic
        self._at = ", ".join(nameservers)
        self._said = ""

    def found(self, brokers: Sequence[str]) -> str | None:
        """Take an answer: these brokers have queues of the topic; there may be none."""
        if brokers:
            there = f"topic {self._topic} now has queues on {', '.join(brokers)}"
            return self._news(there, good=True)
        return self._news(
            f"no route for topic {self._topic} yet at {self._at}; waiting; "
            f"create it with `pocketmq topic create {self._topic}`, or start its broker"
        )

    def failed(self, error: PocketMQError) -> str | None:
        """Take an error instead of an answer."""
        if isinstance(error, NoNameServerError):
            return self._news(f"no nameserver answers at {self._at}; waiting until one does")
        return self._news(f"the route of topic {self._topic} is not known: {error}")

    def _news(self, text: str, *, good: bool = False) -> str | None:
        # Good news resets the text, so that a topic which exists from the start is not reported.
        before, self._said = self._said, "" if good else text
        if self._said == before:
            return None  # unchanged, or the route was there from the beginning
        return text


async def watch_route(
    topic: str,
    nameservers: Sequence[str],
    say: Say,
    on_found: Callable[[], object],
) -> None:
    """Check the topic's route until cancelled, and report changes.

    Args:
        topic: The consumed topic.
        nameservers: Addresses of the name servers to ask.
        say: Called with each line.
        on_found: Called when a missing route has appeared.
    """
    clock, watch = SystemClock(), RouteWatch(topic, nameservers)
    async with Admin(nameservers=nameservers) as admin:
        while True:
            news, is_there = await _look(watch, admin.route(topic))
            if news is not None:
                # With a route, `news` means that it was missing before: only then the consumer has
                # to look again.
                say(news)
                if is_there:
                    on_found()
            await clock.sleep(LOOK_S)


async def _look(
    watch: RouteWatch, question: Awaitable[TopicRouteData | None]
) -> tuple[str | None, bool]:
    try:
        # Awaited within this `try`, which turns its error into a text.
        route = await question
    except PocketMQError as exc:
        return watch.failed(exc), False
    brokers = sorted({each.broker_name for each in route.queue_datas}) if route else []
    return watch.found(brokers), bool(brokers)
