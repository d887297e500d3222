"""The requests of Spark's driver and workers to a cluster: routes, bounds, offsets, and pulls.

This client joins no group: it sends no heartbeats, so it never causes a rebalance.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pocketmq.client.api import ClientApi
from pocketmq.client.config import ENCODINGS, credentials_of
from pocketmq.client.name_servers import NameServers
from pocketmq.client.routes import publish_queues, subscribe_queues
from pocketmq.operation.membership.members import Members
from pocketmq.operation.membership.network import MemberNetwork
from pocketmq.operation.membership.options import SecretFile
from pocketmq.operation.tls.contexts import client_tls
from pocketmq.pipeline.errors import NameServersAwayError, TopicAwayError, near
from pocketmq.pipeline.topics.block_reads import BlockNetwork
from pocketmq.pipeline.topics.patience import DEFAULT, Patience
from pocketmq.pipeline.workers.loop import shared_loop
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.protocol.bodies.route import MASTER_ID, ClusterInfo, TopicList, TopicRouteData
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import (
    BrokerError,
    BrokerNotFoundError,
    ConnectError,
    NoNameServerError,
    RemotingError,
)
from pocketmq.protocol.headers.groups import UpdateSubscriptionGroupRequestHeader
from pocketmq.protocol.headers.offsets import GetAllConsumerOffsetRequestHeader
from pocketmq.protocol.headers.route import (
    GetAllTopicListRequestHeader,
    GetClusterInfoRequestHeader,
)
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.transport.channel import Channel
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.addresses import (
    address_text,
    has_port,
    host_of,
    split_address,
    without_brackets,
)
from pocketmq.runtime.clock import SystemClock

ROUTE_MAX_AGE_S: Final = 30.0
"""Other clients fetch routes anew after the same time (P-3)."""
AT_ONCE: Final = 64
"""Requests about queues that may be unanswered at a time."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom encrypted connections trust."""

    ca_file: str = ""
    """Servers' certificates must come from it; without it any server is taken."""
    server_name: str = ""
    """They must be for it, if it is given."""

    def network(self) -> BlockNetwork:
        """Sockets that speak TLS.

        Raises:
            ConfigError: The file cannot be used.
        """
        own = client_tls(True, ca_file=self.ca_file or None, server_name=self.server_name or None)
        return BlockNetwork(client_tls=own)


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach a cluster; Spark sends it from the driver to the workers."""

    source: str
    """Name of the data source, for error messages."""
    name_servers: tuple[str, ...]
    encoding: str = "msgpack"
    timeout_s: float = 3.0
    patience: Patience = DEFAULT
    advertised: tuple[tuple[str, str], ...] = ()
    """Addresses as the name servers tell them, and as they are reached from here."""
    is_patient: bool = False
    """Whether unknown topics and silent name servers are waited for too, as by a stream: whoever
    reads a topic already knows that it exists."""
    tls: Tls | None = None
    """None: in plaintext."""
    member_secret_file: str = ""
    """What the cluster's members know, if they must prove that they are (docs/members.md)."""

    def reached(self, address: str) -> str:
        """Where a broker is from here, by option `advertise`; of hosts without a port, too."""
        # In the option's order, so that an address with a port can come before its host alone.
        for told, reached in self.advertised:
            if told == address:
                return reached
            if not has_port(told) and without_brackets(told) == host_of(address):
                return address_text(reached, split_address(address)[1])
        return address

    def network(self) -> Network:
        """Sockets whose connections are as the cluster wants them.

        Raises:
            ConfigError: A file cannot be used.
        """
        sockets = self.tls.network() if self.tls is not None else BlockNetwork()
        if not self.member_secret_file:
            return sockets
        return MemberNetwork(sockets, Members(SecretFile(Path(self.member_secret_file))))

    def client(self) -> ClusterClient:
        """This process's client for the cluster; made on first use and kept."""
        # By process id, as a forked process must not use its parent's connections.
        found = _clients.get((os.getpid(), self))
        return found if found is not None else shared_loop().result(_made(self))


_clients: dict[tuple[int, Access], ClusterClient] = {}


class Bounds(NamedTuple):
    """A queue's first stored offset, and the one behind its last."""

    low: int
    high: int


class ClusterClient:
    """Requests to name servers and brokers. Its coroutines must run on the shared loop."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.clock = SystemClock()
        self.remoting = RemotingClient(
            access.network(),
            Dispatcher(),
            encoding=ENCODINGS[access.encoding],
            connect_timeout_s=access.timeout_s,
            credentials=credentials_of(None, os.environ),
        )
        self.api = ClientApi(
            self.remoting,
            self.clock,
            NameServers(access.name_servers),
            timeout_s=access.timeout_s,
        )
        self.repeated = 0
        """Requests that were not answered and sent again."""
        self.reply_sizes: dict[MessageQueue, int] = {}
        """How many messages a queue's replies have, where that is less than what was asked for."""
        self._routes: dict[str, tuple[float, TopicRouteData]] = {}
        self._asking: asyncio.Task[ClusterInfo] | None = None

    # -- name servers ---------------------------------------------------------------------------

    async def route(self, topic: str, *, max_age_s: float = ROUTE_MAX_AGE_S) -> TopicRouteData:
        """The queues and broker addresses of a topic.

        Raises:
            TopicAwayError: No name server knows it.
            NameServersAwayError: None answers.
        """
        known = self._routes.get(topic)
        now = self.clock.monotonic()
        if known is not None and now - known[0] <= max_age_s:
            return known[1]

        async def ask() -> TopicRouteData:
            route = await self.route_now(topic)
            if route is None:
                raise await self._unknown_topic(topic)
            return route

        patience = self.access.patience
        when = TopicAwayError if self.access.is_patient else ()
        return await patience.ask(self.clock, ask, when, self.count_repeat)

    async def route_now(self, topic: str) -> TopicRouteData | None:
        """Where a topic's queues are; None when no name server knows it. Asks anew.

        Raises:
            NameServersAwayError: No name server answers.
        """
        now = self.clock.monotonic()
        route = await self._asked(lambda: self.api.route(topic))
        if route is None:
            # The old route of a deleted topic must not be used.
            self._routes.pop(topic, None)
        else:
            # Only such clusters list a slave as the master.
            if any(data.enable_acting_master for data in route.broker_datas):
                _show_slaves(route, await self.masters())
            self._routes[topic] = (now, route)
        return route

    def forget_route(self, topic: str) -> None:
        """Ask the name servers when the topic's route is next needed: it may have changed."""
        self._routes.pop(topic, None)

    async def _unknown_topic(self, topic: str) -> TopicAwayError:
        """The error for a topic without a route; it proposes topics with a similar name."""
        known = await self.topics()
        problem = f"no name server knows topic {topic!r}"
        if self.access.is_patient:
            problem += self.waited()
        return TopicAwayError(self.access.source, "topic", problem, near=near(topic, known))

    def waited(self) -> str:
        """The end of a message that tells of somebody who did not come back."""
        patience = self.access.patience
        return (
            f" (asked {patience.retries + 1} times in {patience.all_s:g} s); start its brokers, or "
            "let them be waited for longer (options retries and retryIntervalMs)"
        )

    async def topics(self) -> list[str]:
        """Every topic that the name servers know."""
        header = GetAllTopicListRequestHeader()
        response = await self._asked(lambda: self.api.ask_name_server(header))
        return decode_body(response.body_view, TopicList, response.encoding).topic_list

    async def own_topics(self) -> set[str]:
        """Topics that brokers of any release make with a name of their own (E-70): those called
        like brokers and clusters, and those of replies. For the others see `is_system_topic`."""
        info = await self._cluster_info()
        replies = {f"{cluster}_REPLY_TOPIC" for cluster in info.cluster_addr_table}
        return {*info.broker_addr_table, *info.cluster_addr_table, *replies}

    async def _cluster_info(self) -> ClusterInfo:
        """What the name servers know of brokers. Whoever asks while another one does gets its
        answer: routes of many topics need this at the same time."""
        if self._asking is None or self._asking.done():
            loop = asyncio.get_running_loop()
            self._asking = loop.create_task(self._ask_cluster_info(), name="cluster info")
        # Shielded: if one caller is cancelled, the others still get the answer.
        return await asyncio.shield(self._asking)

    async def _ask_cluster_info(self) -> ClusterInfo:
        header = GetClusterInfoRequestHeader()
        response = await self._asked(lambda: self.api.ask_name_server(header))
        return decode_body(response.body_view, ClusterInfo, response.encoding)

    async def brokers(self) -> set[str]:
        """Names of the brokers whose master is registered."""
        return set(await self.masters())

    async def masters(self) -> dict[str, str]:
        """Brokers whose master is registered, and its address as it is told.

        Routes do not say that where a slave acts as master; it stands there under its id.
        """
        info = await self._cluster_info()
        return {
            name: address
            for name, data in info.broker_addr_table.items()
            if (address := data.master_address()) is not None
        }

    async def leads_to_master(self, queue: MessageQueue, channel: Channel | None) -> bool:
        """Whether a connection is the one to the queue's present master. Asks anew."""
        address = (await self.masters()).get(queue.broker_name)
        # Without a registered master, only a slave can have answered.
        if address is None or channel is None:
            return False
        return self.remoting.open_channel(self.access.reached(address)) is channel

    async def read_queues(self, topic: str, *, max_age_s: float = 0.0) -> list[MessageQueue]:
        """Queues that can be read, in order; by default the route is fetched again."""
        return sorted(subscribe_queues(topic, await self.route(topic, max_age_s=max_age_s)))

    async def write_queues(
        self, topic: str, *, max_age_s: float = ROUTE_MAX_AGE_S
    ) -> list[MessageQueue]:
        """Queues that can be written to, in order."""
        return sorted(publish_queues(topic, await self.route(topic, max_age_s=max_age_s)))

    async def _asked(self, question: Callable[[], Awaitable[T]]) -> T:
        async def ask() -> T:
            try:
                return await question()
            except NoNameServerError as exc:
                addresses = ";".join(self.access.name_servers)
                reason = f" ({exc.__cause__})" if exc.__cause__ is not None else ""
                problem = f"no name server answers at {addresses}{reason}"
                raise NameServersAwayError(self.access.source, "nameServer", problem) from None

        when = NameServersAwayError if self.access.is_patient else ()
        return await self.access.patience.ask(self.clock, ask, when, self.count_repeat)

    def count_repeat(self) -> None:
        """A request was not answered and is sent again."""
        self.repeated += 1

    # -- brokers --------------------------------------------------------------------------------

    async def address(self, queue: MessageQueue, *, slaves: bool = False) -> str:
        """Address of a queue's master; with `slaves`, of a slave if there is no master."""
        # With the cached route first; a broker may have joined since.
        for max_age_s in (ROUTE_MAX_AGE_S, 0.0):
            route = await self.route(queue.topic, max_age_s=max_age_s)
            for data in route.broker_datas:
                if data.broker_name == queue.broker_name:
                    master = data.master_address()
                    if master is not None:
                        return self.access.reached(master)
                    if slaves and data.broker_addrs:
                        return self.access.reached(data.broker_addrs[min(data.broker_addrs)])
        raise BrokerNotFoundError(queue.broker_name)

    async def channel(self, queue: MessageQueue, *, slaves: bool = False) -> Channel:
        """The connection to the broker of a queue."""
        address = await self.address(queue, slaves=slaves)
        try:
            return await self.api.channel(address)
        except ConnectError:
            self._routes.pop(queue.topic, None)  # it may have moved
            raise

    async def bounds(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Bounds]:
        """First and last offset of each queue."""

        async def of(queue: MessageQueue) -> Bounds:
            address = await self.address(queue)
            low = await self.api.min_offset(address, queue)
            # The queue may be cut or made anew between the two answers.
            return Bounds(low, max(low, await self.api.max_offset(address, queue)))

        return await self.each(queues, of)

    async def starts(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """First offset of each queue."""

        async def of(queue: MessageQueue) -> int:
            return await self.api.min_offset(await self.address(queue), queue)

        return await self.each(queues, of)

    async def ends(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, int]:
        """One behind the last offset of each queue."""

        async def of(queue: MessageQueue) -> int:
            return await self.api.max_offset(await self.address(queue), queue)

        return await self.each(queues, of)

    async def search(self, moments_ms: dict[MessageQueue, int]) -> dict[MessageQueue, int]:
        """For each queue the first offset stored at its epoch ms or later; its end if none was."""

        async def of(queue: MessageQueue) -> int:
            address = await self.address(queue)
            return await self.api.search_offset(address, queue, moments_ms[queue], boundary="LOWER")

        return await self.each(moments_ms, of)

    async def committed(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        """A group's consumer offset in each queue; None where it has committed nothing."""

        async def of(queue: MessageQueue) -> int | None:
            return await self.api.consumer_offset(await self.address(queue), group, queue)

        return await self.each(queues, of)

    async def commit(self, group: str, offsets: dict[MessageQueue, int]) -> None:
        """Commit offsets of a group; a broker that does not know the group creates it.

        It is tried twice and not for longer: the next commit says the same and more.
        """

        async def of(queue: MessageQueue) -> None:
            address = await self.address(queue)
            offset = offsets[queue]
            try:
                await self.api.update_consumer_offset(address, group, queue, offset, oneway=False)
            # A broker that does not create groups by itself refuses the first commit.
            except BrokerError as exc:
                if exc.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    raise
                config = SubscriptionGroupConfig(group_name=group)
                await self.api.call(address, UpdateSubscriptionGroupRequestHeader(), config)
                await self.api.update_consumer_offset(address, group, queue, offset, oneway=False)

        await self.each(offsets, of, patience=Patience(1, 0.0))

    async def offset_tables(self) -> dict[str, dict[str, dict[int, int]]]:
        """Broker -> `topic@group` -> queue id -> committed offset, of every master."""
        info = await self._cluster_info()
        found = {}
        for name, data in info.broker_addr_table.items():
            address = data.master_address()
            # Slaves only have older copies of these offsets.
            if address is not None:
                table = await self.api.call_for_body(
                    self.access.reached(address),
                    GetAllConsumerOffsetRequestHeader(),
                    ConsumerOffsetTable,
                )
                found[name] = table.offset_table
        return found

    async def each(
        self,
        queues: Iterable[MessageQueue],
        ask: Callable[[MessageQueue], Awaitable[T]],
        *,
        patience: Patience | None = None,
    ) -> dict[MessageQueue, T]:
        """Call `ask` for each queue, many at a time; unanswered requests are repeated."""
        places = asyncio.Semaphore(AT_ONCE)
        patience = self.access.patience if patience is None else patience

        async def one(queue: MessageQueue) -> T:
            async def once() -> T:
                try:
                    return await ask(queue)
                except RemotingError:
                    # The broker may have moved, so the next attempt asks for the route again.
                    self._routes.pop(queue.topic, None)
                    raise

            async with places:
                when = (RemotingError, BrokerNotFoundError)
                return await patience.ask(self.clock, once, when, self.count_repeat)

        asked: Sequence[MessageQueue] = list(queues)
        answers = await asyncio.gather(*(one(queue) for queue in asked))
        return dict(zip(asked, answers, strict=True))


def client_on_loop(access: Access) -> ClusterClient:
    """`Access.client` for code that already runs on the shared loop, and must not wait for it."""
    key = (os.getpid(), access)
    found = _clients.get(key)
    if found is None:
        found = _clients[key] = ClusterClient(access)
    return found


def _show_slaves(route: TopicRouteData, masters: Mapping[str, str]) -> None:
    """Give slaves that act as master the place of slaves: their queues may end too early."""
    for data in route.broker_datas:
        if data.enable_acting_master and data.broker_name not in masters:
            # After all others, so that a real slave is asked first.
            acting = data.broker_addrs.pop(MASTER_ID, None)
            if acting is not None:
                data.broker_addrs[max(data.broker_addrs, default=MASTER_ID) + 1] = acting


async def _made(access: Access) -> ClusterClient:
    return client_on_loop(access)
