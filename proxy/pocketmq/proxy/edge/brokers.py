"""What the proxy asks brokers and name servers, all by RocketMQ's requests (G-52 to G-54, G-61)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.route import MASTER_ID, ClusterInfo, TopicRouteData
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Body, Command
from pocketmq.protocol.errors import BrokerError, BrokerNotFoundError, ConnectError, RemotingError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.groups import GetSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.route import GetClusterInfoRequestHeader
from pocketmq.protocol.headers.topics import GetTopicConfigRequestHeader
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.proxy.codes.refusals import Refusal
from pocketmq.proxy.codes.topic_types import UNSPECIFIED, type_of_topic
from pocketmq.proxy.edge.kept import Kept
from pocketmq.proxy.protos.enums import Code
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import PocketMQError

log = structlog.get_logger()

CALL_TIMEOUT_S: Final = 2.0
"""Real seconds for a broker's answer, as RocketMQ's proxy waits."""

ASK_TIMEOUT_S: Final = 2 * CALL_TIMEOUT_S
"""Real seconds for an answer of any broker, however many do not answer."""
SILENT_S: Final = 30.0
"""Real seconds for which a broker that did not answer is asked after all others."""

_REAL: Final = SystemClock()

_ALL: Final = ""
"""The one name under which the cluster's brokers are kept."""


class Brokers:
    """The brokers behind one proxy.

    Args:
        instance: The client that reaches them.
        real_time: Seconds; a frozen broker costs real ones, whatever the instance's clock is.
    """

    def __init__(
        self, instance: ClientInstance, *, real_time: Callable[[], float] = _REAL.monotonic
    ) -> None:
        self.instance = instance
        self._real_time = real_time
        clock = instance.clock
        self._routes = Kept(clock, self._load_route)
        self._types = Kept(clock, self._load_type)
        self._groups = Kept(clock, self._load_group)
        self._cluster = Kept(clock, self._load_cluster)
        self._silent_until: dict[str, float] = {}
        """By address, in real time."""

    async def route(self, topic: str) -> TopicRouteData:
        """Where a topic is.

        Raises:
            Refusal: TOPIC_NOT_FOUND.
            PocketMQError: no name server can tell.
        """
        return await self._routes.get(topic)

    async def topic_type(self, topic: str) -> str:
        """The declared type of a topic; UNSPECIFIED while no broker tells it."""
        try:
            return await self._types.get(topic)
        # An unknown type makes the proxy refuse the send; the next one asks again.
        except PocketMQError as exc:
            log.debug("proxy.type_unknown", topic=topic, reason=str(exc))
            return UNSPECIFIED

    async def group(self, group: str) -> SubscriptionGroupConfig | None:
        """A group's configuration, which the broker makes if it may; None: no broker tells it."""
        try:
            return await self._groups.get(group)
        except PocketMQError as exc:
            log.debug("proxy.group_unknown", group=group, reason=str(exc))
            return None

    async def master(self, broker_name: str, topic: str) -> str:
        """The address of a broker name's master.

        Raises:
            PocketMQError: the topic's route names none.
        """
        return await self.instance.addresses.master(MessageQueue(topic, broker_name, 0))

    async def call(
        self,
        broker_name: str,
        topic: str,
        header: Header,
        body: Body = b"",
        *,
        ok: Sequence[int] = (),
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Command:
        """Ask the master of a broker name.

        Args:
            broker_name: Whom.
            topic: Whose route may tell the address.
            header: Names the request.
            body: Of it.
            ok: Codes besides 0 that the caller understands.
            timeout_s: Real seconds for the answer.

        Raises:
            BrokerError: another code.
            RemotingError: it could not be asked, or did not answer.
        """
        address = await self.master(broker_name, topic)
        try:
            return await self.instance.api.call(address, header, body, ok=ok, timeout_s=timeout_s)
        except RemotingError:
            self.instance.lookups.suspect_route(topic)  # another may be master by now
            raise

    async def ask_any(self, header: Header, *, slaves: bool = False) -> Command:
        """Ask one broker of the cluster: the first by name that answers, masters before slaves, and
        those that were silent after all others.

        Each has `CALL_TIMEOUT_S` to answer, and all together `ASK_TIMEOUT_S`. One that did not is
        asked last for `SILENT_S`: a call of an SDK asks twice, for a user and for its rules, and a
        frozen broker would hold both.

        Args:
            header: Names the request.
            slaves: Whether one of them will do where no master answers.

        Raises:
            BrokerError: it refuses.
            BrokerNotFoundError: there is none.
            RemotingError: none answers.
        """
        # Ask the cluster and not a route: a user or a group belongs to no topic.
        cluster = await self._cluster.get(_ALL)
        now = self._real_time()
        self._silent_until = {a: until for a, until in self._silent_until.items() if until > now}
        # Of those that are alike in that, masters come first: their number is 0.
        known = sorted(
            (address in self._silent_until, number, name, address)
            for name, each in cluster.broker_addr_table.items()
            for number, address in each.broker_addrs.items()
            if slaves or number == MASTER_ID
        )
        fault: RemotingError | None = None
        for *_, address in known:
            left_s = now + ASK_TIMEOUT_S - self._real_time()
            if left_s <= 0:
                break
            limit_s = min(CALL_TIMEOUT_S, left_s)
            try:
                # Beside the limit of the answer, as connecting has a longer one of its own.
                async with asyncio.timeout(limit_s):
                    answer = await self.instance.api.call(address, header, timeout_s=limit_s)
            # Skip only a broker that cannot be reached: a refusal is the cluster's answer.
            except (RemotingError, TimeoutError) as exc:
                late = ConnectError(address, f"no answer in {limit_s:g} s")
                fault = exc if isinstance(exc, RemotingError) else late
                # A broker that got only what was left of the time may be as quick as any.
                if limit_s == CALL_TIMEOUT_S:
                    self._silent_until[address] = self._real_time() + SILENT_S
            except BrokerError:
                self._silent_until.pop(address, None)
                raise
            else:
                self._silent_until.pop(address, None)
                return answer
        # The table is empty before the first broker has registered.
        raise fault or BrokerNotFoundError("any")

    async def _load_route(self, topic: str) -> TopicRouteData:
        instance = self.instance
        found = await instance.lookups.refresh_route(topic)
        route = instance.routes.routes.get(topic) if found else None
        if route is None or not route.broker_datas:
            raise Refusal(
                Code.TOPIC_NOT_FOUND,
                f"CODE: 17  DESC: No topic route info in name server for the topic: {topic}",
            )
        return route

    async def _load_type(self, topic: str) -> str:
        route = await self.route(topic)
        for data in route.broker_datas:
            # Slaves may not have the newest configuration yet.
            address = data.broker_addrs.get(MASTER_ID)
            if address is not None:
                config = await self.instance.api.call_for_body(
                    address,
                    GetTopicConfigRequestHeader(topic=topic),
                    TopicConfig,
                    timeout_s=CALL_TIMEOUT_S,
                )
                return type_of_topic(config.attributes)
        raise BrokerNotFoundError(topic)

    async def _load_group(self, group: str) -> SubscriptionGroupConfig:
        answer = await self.ask_any(GetSubscriptionGroupRequestHeader(group=group))
        return decode_body(answer.body_view, SubscriptionGroupConfig, answer.encoding)

    async def _load_cluster(self, _name: str) -> ClusterInfo:
        answer = await self.instance.api.ask_name_server(GetClusterInfoRequestHeader())
        return decode_body(answer.body_view, ClusterInfo, answer.encoding)
