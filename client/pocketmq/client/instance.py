"""ClientInstance: what all producers and consumers of one client id share (P-2).

A client id is one member of its groups. To a broker it is one connection, one heartbeat and one
entry in each group's list of members, however many producers and consumers the application makes
under it. So they share an instance: connections, the route table, the timers, the rebalance service
and the pull service. It starts with its first user and stops with its last (instances.py).

    timer                                           period      first time
    refresh the routes of all topics in use (P-3)   30 s        10 ms after the start
    forget offline brokers, then heartbeat (P-4)    30 s        1 s
    persist consumers' offsets (P-5)                 5 s        10 s
    rebalance (rebalance/service.py, C-20)          20 s        when the first consumer wakes it

What happens when a consumer starts, all within one second if brokers answer:

    1  it enters its group here                            register_consumer
    2  routes of its topics are asked of the name server   refresh_route
    3  brokers register it and notify the other members    heartbeat
    4  it divides the queues with them                     rebalance
    5  it pulls its queues, one pending pull for each      pull_service

Nothing here decides: what is sent is planned in pure modules (heartbeat.py, routes.py,
rebalance/planner.py), and each producer and consumer is known by a narrow protocol only
(`ProducerUser`, `ConsumerUser`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, Protocol

import structlog

from pocketmq.client.api import ClientApi
from pocketmq.client.broker_addresses import BrokerAddresses
from pocketmq.client.commands import (
    COMMANDS,
    CommandedConsumer,
    CommandedProducer,
    CommandProcessor,
)
from pocketmq.client.config import ClientConfig
from pocketmq.client.heartbeat import ConsumerMember, heartbeat_addresses, heartbeat_data
from pocketmq.client.name_servers import NameServers
from pocketmq.client.pulling.pull_service import PullMessageService
from pocketmq.client.rebalance.service import RebalanceService
from pocketmq.client.requests import OpenRequests, pushed_reply
from pocketmq.client.route_events import RouteEvents
from pocketmq.client.route_lookups import RouteLookups
from pocketmq.client.routes import RouteTable
from pocketmq.protocol.bodies.clients import HeartbeatData
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import (
    BrokerError,
    ClientError,
    RemotingError,
)
from pocketmq.protocol.messages.subscription import SubscriptionData
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.logs import configure_if_unset
from pocketmq.runtime.periodic import Action, PeriodicService
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

HEARTBEAT_WAIT_S: Final = 1.0
"""Real seconds for which a round of heartbeats waits for answers."""


class ProducerUser(CommandedProducer, Protocol):
    """A producer, as its instance sees it."""

    @property
    def group(self) -> str: ...
    @property
    def published_topics(self) -> set[str]:
        """Topics that it has sent to."""
        ...


class ConsumerUser(ConsumerMember, CommandedConsumer, Protocol):
    """A consumer, as its instance sees it."""

    @property
    def subscriptions(self) -> Sequence[SubscriptionData]:
        """What it reads: the routes of these topics are kept."""
        ...

    async def rebalance(self) -> bool:
        """Rebalance; whether the assignment is complete."""
        ...

    async def persist_offsets(self) -> None:
        """Persist its offsets."""
        ...

    def persist_at_once(self) -> bool:
        """The same if that needs no waiting; False: it does, and nothing was done."""
        ...


class DuplicateGroupError(ClientError):
    """One client id cannot serve the same group twice (P-2, C-8)."""

    def __init__(self, kind: str, group: str, client_id: str) -> None:
        self.group = group
        self.client_id = client_id
        super().__init__(
            f"{kind} group {group!r} is used already by client {client_id}; give one of the two "
            "another instance_name"
        )


class ClientInstance:
    """One client id in one event loop. Made and shared by `acquire`, given back by `release`."""

    def __init__(self, config: ClientConfig) -> None:
        configure_if_unset()
        self.config = config
        self.client_id = config.client_id
        self.clock = config.clock
        self.profile = config.profile
        self.events = config.events(config.client_id, config.clock.time_ms)
        self.routes = RouteTable()
        self._route_events = RouteEvents(self.events, self.client_id, self.routes)
        self.producers: dict[str, ProducerUser] = {}
        self.consumers: dict[str, ConsumerUser] = {}
        self.users = 0
        self.log = log.bind(client_id=self.client_id)

        self.dispatcher = Dispatcher()
        self.remoting = RemotingClient(
            config.network,
            self.dispatcher,
            encoding=config.encoding,
            version=config.profile.client_version,
            credentials=config.credentials,
        )
        self.api = ClientApi(
            self.remoting,
            config.clock,
            NameServers(config.nameservers),
            timeout_s=config.api_timeout_ms / 1000,
            on_new_channel=(
                self._introduce_ourselves
                if config.profile.client.heartbeat_on_new_channel
                else None
            ),
            usual_boundary="LOWER" if config.profile.client.search_names_boundary else None,
        )
        self.tasks = TaskOwner(f"client {self.client_id}")
        self.lookups = RouteLookups(
            config, self.api, self.routes, self.tasks, self._routes_changed, self.log
        )
        self.addresses = BrokerAddresses(self.routes, self.lookups.refresh_route)
        self.pull_service = PullMessageService(
            config.clock,
            self.api,
            self.addresses,
            self.tasks,
            self.lookups.suspect_broker,
            max_body_bytes=config.max_body_bytes,
        )
        self.rebalance_service = RebalanceService(
            config.clock,
            interval_ms=config.rebalance_interval_ms,
            min_interval_ms=config.profile.client.rebalance_min_interval_ms,
            rebalance_all=self.rebalance,
            name=f"rebalance {self.client_id}",
        )
        self.requests = OpenRequests()
        self.dispatcher.add(
            CommandProcessor(
                self.consumers.get,
                self.producers.get,
                self.rebalance_service.wakeup,
                lambda command: self.requests.arrived(pushed_reply(command, self.clock.time_ms())),
                self.tasks,
                events=self.events,
                client_id=self.client_id,
            )
        )
        self.dispatcher.require(COMMANDS)
        self._heartbeats: dict[str, asyncio.Task[bool]] = {}
        self._to_tell: dict[str, HeartbeatData] = {}
        """What the heartbeats under way say; another one says what has come up meanwhile."""
        self._timers = [
            self._timer("routes", config.poll_name_server_interval_ms, 10, self.refresh_routes),
            self._timer("heartbeat", config.heartbeat_broker_interval_ms, 1_000, self._beat),
            self._timer(
                "offsets",
                config.persist_consumer_offset_interval_ms,
                10_000,
                self._persist_offsets,
            ),
        ]
        self._started = False

    # -- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Arm the timers; harmless when they run already."""
        if self._started:
            return
        self._started = True
        for timer in self._timers:
            timer.start()
        self.rebalance_service.start()

    async def stop(self) -> None:
        """End timers and services, then close every connection."""
        if self._started:
            await self.rebalance_service.stop()
            for timer in self._timers:
                await timer.stop()
        # After the rebalance, which could begin new pulls, and before the connections are closed.
        self.pull_service.stop()
        await self.tasks.stop()
        await self.remoting.close()

    def register_producer(self, producer: ProducerUser) -> None:
        """Enter a producer; raises `DuplicateGroupError`."""
        if producer.group in self.producers:
            raise DuplicateGroupError("producer", producer.group, self.client_id)
        self.producers[producer.group] = producer

    def register_consumer(self, consumer: ConsumerUser) -> None:
        """Enter a consumer; raises `DuplicateGroupError`."""
        if consumer.group in self.consumers:
            raise DuplicateGroupError("consumer", consumer.group, self.client_id)
        self.consumers[consumer.group] = consumer

    async def unregister(
        self, *, producer_group: str | None = None, consumer_group: str | None = None
    ) -> None:
        """Unregister a group at every known broker, so that others rebalance at once (B-25)."""
        if producer_group is not None:
            self.producers.pop(producer_group, None)
        if consumer_group is not None:
            self.consumers.pop(consumer_group, None)

        async def tell(address: str) -> None:
            try:
                await self.api.unregister(
                    address,
                    self.client_id,
                    producer_group=producer_group,
                    consumer_group=consumer_group,
                )
            except PocketMQError as exc:
                # It will notice the closed connection.
                self.log.debug("unregister.failed", broker=address, reason=str(exc))

        await asyncio.gather(*(tell(address) for _, _, address in self.routes.addresses()))

    # -- routes ---------------------------------------------------------------------------------

    async def refresh_routes(self) -> None:
        """Ask for the route of every topic that somebody here produces to or consumes (P-3)."""
        # One after the other: hundreds of topics at once would be a burst at a nameserver, from
        # every client in the same second.
        for topic in sorted(self._topics()):
            try:
                await self.lookups.refresh_route(topic)
            except PocketMQError as exc:
                self.lookups.route_failed(topic, exc)

    def _routes_changed(self, topic: str) -> None:
        self._route_events.changed(topic)
        self.pull_service.routes_changed()

    def _topics(self) -> set[str]:
        topics = {topic for each in self.producers.values() for topic in each.published_topics}
        for consumer in self.consumers.values():
            topics.update(subscription.topic for subscription in consumer.subscriptions)
        return topics

    # -- heartbeats -----------------------------------------------------------------------------

    async def heartbeat(self) -> bool:
        """Send heartbeats to every known broker; whether at least one answered soon (P-8).

        A broker that has not answered the last heartbeat yet is skipped, and nobody waits long
        for a silent one: it must not keep heartbeats from the others.
        """
        data = heartbeat_data(self.client_id, self.producers, self.consumers.values())
        if data is None:
            return False
        brokers = heartbeat_addresses(self.routes, has_consumers=bool(self.consumers))
        beats = [self._start_heartbeat(name, address, data) for name, _, address in brokers]
        if not beats:
            return False
        # `wait` and not `wait_for`: late heartbeats go on and may still be answered.
        done, late = await asyncio.wait(beats, timeout=HEARTBEAT_WAIT_S)
        # Such a broker does not count us among the members yet, so that a rebalance now gives us
        # none of its queues, and the next one is up to 20 s away.
        for beat in late:
            beat.add_done_callback(self._rebalance_if_taken)
        return any(not beat.cancelled() and beat.result() for beat in done)

    def _start_heartbeat(
        self, broker_name: str, address: str, data: HeartbeatData
    ) -> asyncio.Task[bool]:
        self._to_tell[address] = data
        # At most one heartbeat per broker is under way: a silent broker collects no tasks.
        if under_way := self._heartbeats.get(address):
            return under_way

        async def beat() -> bool:
            told: HeartbeatData | None = None
            try:
                while (news := self._to_tell[address]) != told:
                    told = news
                    await self.api.heartbeat(address, news)
            except (BrokerError, RemotingError) as exc:
                self.log.info(
                    "heartbeat.failed", broker=broker_name, address=address, reason=str(exc)
                )
                return False
            finally:
                self._heartbeats.pop(address, None)
                self._to_tell.pop(address, None)
            return True

        task = self.tasks.start(beat(), name=f"heartbeat {address}")
        self._heartbeats[address] = task
        return task

    def _introduce_ourselves(self, address: str) -> None:
        """A broker that we just connected to does not know us, or no more (C-21): it was restarted.

        A consumer that its broker does not know is left out of the members, and others take its
        queues; a producer is not asked how its transactions ended.
        """
        if address in self._heartbeats:
            return
        names = {each: name for name, _, each in self.routes.addresses()}
        data = heartbeat_data(self.client_id, self.producers, self.consumers.values())
        if address in names and data is not None:
            beat = self._start_heartbeat(names[address], address, data)
            beat.add_done_callback(self._rebalance_if_taken)

    def _rebalance_if_taken(self, beat: asyncio.Task[bool]) -> None:
        """A heartbeat has ended for which nobody waits."""
        if self.consumers and not beat.cancelled() and beat.result():
            self.rebalance_service.wakeup()

    async def _beat(self) -> None:
        # Otherwise connections and heartbeats of brokers that no route names would be kept for
        # ever.
        for address in self.routes.clean_offline_brokers():
            self.remoting.drop(address)
        await self.heartbeat()

    # -- consumers ------------------------------------------------------------------------------

    # behaviour 3
    async def rebalance(self) -> bool:
        """Rebalance every consumer; whether all are balanced (C-20)."""
        balanced = True
        for consumer in list(self.consumers.values()):
            try:
                balanced &= await consumer.rebalance()
            except Exception:  # one consumer must not keep the others from their queues (C-22)
                self.log.exception("rebalance.failed", group=consumer.group)
                balanced = False
        return balanced

    def _persist_offsets(self) -> Awaitable[None] | None:
        """Persist every consumer's offsets; what has to be waited for is left to the caller."""
        waiting = [each for each in self.consumers.values() if not each.persist_at_once()]
        return self._persist_offsets_of(waiting) if waiting else None

    async def _persist_offsets_of(self, consumers: Sequence[ConsumerUser]) -> None:
        for consumer in consumers:
            try:
                await consumer.persist_offsets()
            except PocketMQError as exc:
                self.log.warning("offsets.persist_failed", group=consumer.group, reason=str(exc))

    def _timer(self, name: str, period_ms: int, first_ms: int, action: Action) -> PeriodicService:
        return PeriodicService(
            f"{name} {self.client_id}",
            self.clock,
            period_ms / 1000,
            action,
            initial_delay_s=first_ms / 1000,
        )
