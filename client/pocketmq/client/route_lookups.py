"""`RouteLookups`: asks name servers for routes, once for all who want the same one now.

A *route* says which brokers have a topic, where they are, and how many queues each has. Clients ask
for those of their topics when they need them first and every 30 s from then on (P-3), so a client
may be that late to see a new broker. A hundred sends to a topic that is not known yet ask once, and
wait for the same answer.

A topic that nobody knows may still be sent to (P-14), where brokers make topics by themselves:

    orders?     TOPIC_NOT_EXIST (17)
    TBW102?     broker-a, 8 queues; the route of orders is taken to be this one, with 4 queues
    send        to orders, queue 2 of broker-a, which makes the topic

Call `publish_info` to send, `refresh_route` to know, `suspect_route` when a request failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from pocketmq.client.api import ClientApi
from pocketmq.client.config import ClientConfig
from pocketmq.client.routes import RouteTable, TopicPublishInfo, clipped_to_default
from pocketmq.protocol.errors import NoNameServerError, TopicNotFoundError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.tasks import TaskOwner

SUSPECT_S: Final = 1.0
"""Between two questions for a route that failed requests cast doubt on, on the clock."""


class RouteLookups:
    """Keeps a client's table of routes fresh.

    Args:
        config: Clock and name servers.
        api: Asks them.
        routes: Gets what they answer.
        tasks: Owns the questions under way.
        on_change: Called with a topic whose route has become another.
        log: Of the client.
    """

    def __init__(
        self,
        config: ClientConfig,
        api: ClientApi,
        routes: RouteTable,
        tasks: TaskOwner,
        on_change: Callable[[str], None],
        log: FilteringBoundLogger,
    ) -> None:
        self._has_name_servers = bool(config.nameservers)
        self._clock = config.clock
        self._api = api
        self._routes = routes
        self._tasks = tasks
        self._on_change = on_change
        self._log = log
        self._suspected: dict[str, float] = {}
        """When topics were asked for after a failed request."""
        self._to_look_again: set[str] = set()
        """Topics that are about to be asked for again."""
        self._lookups: dict[tuple[str, str], asyncio.Task[bool | PocketMQError]] = {}

    async def refresh_route(
        self, topic: str, *, model: str = "", model_queue_nums: int = 0
    ) -> bool:
        """Ask the name server for a topic's route (P-11).

        Callers at the same time share one question. Not found keeps what was known.

        Args:
            topic: Whose route is wanted.
            model: Ask for this topic instead and take its brokers (P-14, TBW102).
            model_queue_nums: Queues per broker then.

        Returns:
            Whether a route was found.

        Raises:
            NoNameServerError: none is configured or answers.
            BrokerError: the name server refused.
        """
        key = (topic, model)
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._tasks.start(
                self._look_up(topic, model, model_queue_nums), name=f"route of {topic}"
            )
            self._lookups[key] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(key, None))
        found = await asyncio.shield(lookup)
        if isinstance(found, PocketMQError):
            raise found
        return found

    def suspect_route(self, topic: str) -> None:
        """A request failed: ask for the topic's route, for another broker may be master by now
        (W-12). Not more often than each second: what is soon after the last question waits."""
        now = self._clock.monotonic()
        if topic in self._to_look_again:
            return
        self._to_look_again.add(topic)
        wait_s = max(0.0, self._suspected.get(topic, now - SUSPECT_S) + SUSPECT_S - now)
        self._tasks.start(self._look_again(topic, wait_s), name=f"suspect route of {topic}")

    def suspect_broker(self, queue: MessageQueue) -> bool:
        """A consumer's request for a queue failed: as `suspect_route`, where the broker's name has
        others that may lead now; whether it has."""
        may_fail_over = self._routes.may_fail_over(queue.broker_name)
        if may_fail_over:
            self.suspect_route(queue.topic)
        return may_fail_over

    async def _look_again(self, topic: str, wait_s: float) -> None:
        if wait_s > 0:
            await self._clock.sleep(wait_s)
        self._to_look_again.discard(topic)
        self._suspected[topic] = self._clock.monotonic()
        try:
            await self.refresh_route(topic)
        except PocketMQError as exc:
            self.route_failed(topic, exc)

    # behaviour 51
    async def publish_info(
        self, topic: str, *, model: str, model_queue_nums: int
    ) -> TopicPublishInfo:
        """Queues to send to, after up to two questions to the name server (P-14).

        Raises:
            NoNameServerError: NO_NAME_SERVER (10004): none is configured or answers.
            TopicNotFoundError: NOT_FOUND_TOPIC (10005): no route, or nobody may write there.
        """
        info = self._routes.publish_info(topic)
        if info is None or not info.queues:
            if not self._has_name_servers:
                raise NoNameServerError
            found = await self.refresh_route(topic)
            if not found and self._routes.publish_info(topic) is None:
                await self.refresh_route(topic, model=model, model_queue_nums=model_queue_nums)
            info = self._routes.publish_info(topic)
        if info is None:
            raise TopicNotFoundError(topic)
        if not info.queues:
            raise TopicNotFoundError(topic, "no queue of the topic can be written to now")
        return info

    async def _look_up(self, topic: str, model: str, model_queue_nums: int) -> bool | PocketMQError:
        try:
            route = await self._api.route(model or topic)
        except PocketMQError as exc:
            return exc  # for those who wait; the task itself did its work
        if route is None:
            return False
        if model:
            route = clipped_to_default(route, model_queue_nums)
        if self._routes.apply(topic, route):
            self._log.debug(
                "route.changed",
                topic=topic,
                brokers=[data.broker_name for data in route.broker_datas],
            )
            self._on_change(topic)
        return True

    def route_failed(self, topic: str, error: PocketMQError) -> None:
        """Log that a topic's route is not known now."""
        # A %RETRY% topic exists only after the first heartbeat (T-3).
        level = self._log.debug if is_retry(topic) else self._log.warning
        level("route.lookup_failed", topic=topic, reason=str(error))
