"""The broker's own copy of routes: which queues a topic has on all brokers (K-21)."""

from __future__ import annotations

import asyncio

import structlog

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.pop.assignments import readable_queues
from pocketmq.broker.subject import Service
from pocketmq.protocol.bodies.route import TopicRouteData
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.route import GetRouteInfoRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import PeerError
from pocketmq.runtime.periodic import AT_REST, PeriodicService

log = structlog.get_logger()

REFRESH_S = 30.0
TIMEOUT_S = 3.0
MAX_TOPICS = 10_000


class RouteCache(Service):
    """Asks the name servers for a topic's route on first use, then every 30 s while it is used.

    Args:
        core: options and clock.
        network: connects to the name servers.
    """

    def __init__(self, core: BrokerCore, network: Network) -> None:
        config = core.config
        self._nameservers = config.nameservers
        self._client = RemotingClient(
            network,
            encoding=Encoding[config.encoding.upper()],
            version=core.profile.client_version,
            credentials=config.inner_credentials,
        )
        self._queues: dict[str, list[MessageQueue]] = {}
        self._used: set[str] = set()
        """Topics that somebody wanted since the last refresh; the others are forgotten then."""
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._service = PeriodicService("refresh routes", core.clock, REFRESH_S, self._refresh)

    async def start(self) -> None:
        self._service.start()

    async def stop(self) -> None:
        await self._service.stop()
        for task in list(self._asking.values()):
            # The tasks use the client that is closed below.
            task.cancel()
        await asyncio.gather(*self._asking.values(), return_exceptions=True)
        await self._client.close()

    def known(self, topic: str) -> list[MessageQueue] | None:
        """The topic's queues, sorted; None until `ask` has fetched them."""
        queues = self._queues.get(topic)
        if queues is not None:
            self._used.add(topic)
        return queues

    def ask(self, topic: str) -> asyncio.Task[None]:
        """Fetch the topic's queues; concurrent callers for one topic share one request."""
        task = self._asking.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._ask(topic), name=f"route {topic}")
            self._asking[topic] = task
            task.add_done_callback(lambda _: self._asking.pop(topic, None))
        return task

    async def _refresh(self) -> float | None:
        used, self._used = self._used, set()
        for topic in list(self._queues):
            if topic in used:
                await self._ask(topic)
            else:
                self._queues.pop(topic, None)
        # No routes are known: the service ends until somebody asks.
        return None if self._queues else AT_REST

    async def _ask(self, topic: str) -> None:
        header = GetRouteInfoRequestHeader(topic=topic, accept_standard_json_only=True)
        for nameserver in self._nameservers:
            try:
                reply = await self._client.call(nameserver, header, timeout_s=TIMEOUT_S)
                # The topic is gone: do not hand out its old queues (K-21).
                if reply.code == ResponseCode.TOPIC_NOT_EXIST:
                    self._queues.pop(topic, None)
                    return
                if reply.code != ResponseCode.SUCCESS:
                    # Try the next name server.
                    log.warning("route.refused", topic=topic, code=reply.code, remark=reply.remark)
                    continue
                route = decode_body(reply.body_view, TopicRouteData, reply.encoding)
            except (PeerError, BadRequestError) as exc:
                log.warning("route.failed", topic=topic, nameserver=nameserver, reason=str(exc))
                continue
            # At the limit, drop all routes: those still needed are fetched again.
            if len(self._queues) >= MAX_TOPICS and topic not in self._queues:
                self._queues.clear()
            self._queues[topic] = readable_queues(topic, route)
            self._service.resume()
            return
