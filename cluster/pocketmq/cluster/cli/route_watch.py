"""What a waiting consumer waits for, in words: once, and again when it changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pocketmq.client import Admin
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.errors import NoNameServerError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

LOOK_S = 1.0
"""Real seconds between two looks: a person waits, whatever the cluster's clocks say."""

Say = Callable[[str], None]


class RouteWatch:
    """Turns what is known of a topic's route into news; None while there is none."""

    def __init__(self, topic: str, nameservers: Sequence[str]) -> None:
        self._topic = topic
        self._at = ", ".join(nameservers)
        self._said = ""

    def found(self, brokers: Sequence[str]) -> str | None:
        """These brokers hold queues of the topic; nobody does if there is none."""
        if brokers:
            there = f"topic {self._topic} is there now, on {', '.join(brokers)}"
            return self._news(there, good=True)
        return self._news(
            f"no route for topic {self._topic} yet at {self._at}; waiting; "
            f"create it with `pocketmq topic create {self._topic}`, or start its broker"
        )

    def failed(self, error: PocketMQError) -> str | None:
        """The question could not be answered."""
        if isinstance(error, NoNameServerError):
            return self._news(f"no nameserver answers at {self._at}; waiting until one does")
        return self._news(f"the route of topic {self._topic} is not known: {error}")

    def _news(self, text: str, *, good: bool = False) -> str | None:
        before, self._said = self._said, "" if good else text
        if self._said == before:
            return None  # also: all is well and always was
        return text


async def watch_route(
    topic: str,
    nameservers: Sequence[str],
    say: Say,
    on_found: Callable[[], object],
) -> None:
    """Look at the topic's route until cancelled, and say what changed.

    Args:
        topic: What is consumed.
        nameservers: Whom to ask.
        say: Gets each line.
        on_found: Called when a route has come that was missing.
    """
    clock, watch = SystemClock(), RouteWatch(topic, nameservers)
    async with Admin(nameservers=nameservers) as admin:
        while True:
            news, is_there = await _look(watch, admin.route(topic))
            if news is not None:
                say(news)
                if is_there:
                    on_found()
            await clock.sleep(LOOK_S)


async def _look(
    watch: RouteWatch, question: Awaitable[TopicRouteData | None]
) -> tuple[str | None, bool]:
    try:
        route = await question
    except PocketMQError as exc:
        return watch.failed(exc), False
    brokers = sorted({each.broker_name for each in route.queue_datas}) if route else []
    return watch.found(brokers), bool(brokers)
