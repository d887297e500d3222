"""Registers with every name server: at start, every 30 s, on change (B-2 to B-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

import structlog

from pocketmq.broker.address import BrokerAddress
from pocketmq.broker.replication.ha_port import HaPort
from pocketmq.broker.role import RoleState
from pocketmq.broker.subject import Service
from pocketmq.broker.topics.announcements import Announcements
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
)
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.errors import BadRequestError, BrokerError
from pocketmq.protocol.headers.route import (
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerRequestHeader,
)
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PeerError
from pocketmq.runtime.periodic import PeriodicService
from pocketmq.runtime.signals import Signal

log = structlog.get_logger()

UNREGISTER_TIMEOUT_S = 3.0
INCREMENT_TIMEOUT_S = 3.0
QUERY_TIMEOUT_S = 3.0
"""Real seconds."""

FIRST_AFTER_S = 10.0
"""From the start's registration to the first periodic one (B-2)."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """Names, id and address of a broker."""

    cluster_name: str
    broker_name: str
    role: RoleState
    where: BrokerAddress
    ha_port: HaPort

    @property
    def broker_id(self) -> int:
        """0 while it is the master."""
        return self.role.broker_id

    @property
    def address(self) -> str:
        """What clients connect to."""
        return str(self.where)

    @property
    def ha_address(self) -> str:
        """What slaves connect to."""
        return str(self.ha_port)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationRules:
    """When a broker registers, and with what."""

    period_s: float = 30.0
    """Between two registrations."""
    timeout_s: float = 24.0
    """Real seconds for one registration (B-4)."""
    force: bool = True
    """Register at every period (B-3)."""
    incremental: bool = True
    """Created topics register alone, not the whole table (B-6)."""
    permission: Callable[[], int] = lambda: 6
    """Permission bits of the whole broker, now (B-5)."""
    enable_acting_master: bool | None = None
    """Whether slaves of this name may act as master; None as brokers before 5.0 (Z-1)."""
    timeout_ms: int | None = None
    """Silence after which name servers forget this broker; None: as they like (Z-4)."""
    master_told: Signal[[str | None, str | None]] = field(default_factory=Signal)
    """Emitted with what the first answer says of the master (H-7)."""


class BrokerRegistration(Service):
    """Keeps the name servers' view of this broker up to date.

    Args:
        identity: who registers.
        nameservers: addresses; all of them are told the same.
        client: the connections to them.
        topics: what is registered.
        announcements: changed topics, and callbacks that wait for their registration.
        clock: the period; calls themselves are limited in real time.
        rules: when to register, and with what.
    """

    def __init__(
        self,
        identity: BrokerIdentity,
        nameservers: Sequence[str],
        client: RemotingClient,
        topics: TopicConfigManager,
        announcements: Announcements,
        clock: Clock,
        rules: RegistrationRules,
    ) -> None:
        self.identity = identity
        self._nameservers = tuple(dict.fromkeys(nameservers))
        self._client = client
        self._topics = topics
        self._announcements = announcements
        self._clock = clock
        self._rules = rules
        self._full_at = clock.monotonic() + FIRST_AFTER_S
        self._again = False
        self._service = PeriodicService(
            "registration", clock, rules.period_s, self._tick, initial_delay_s=FIRST_AFTER_S
        )
        self.registered_with: frozenset[str] = frozenset()
        """Name servers that took the last full registration."""

    async def start(self) -> None:
        """Register in full with every name server, then go on by the clock."""
        if not self._nameservers:
            return
        _, waiting = self._announcements.take()
        await self.register()
        for callback in waiting:
            callback()
        self._full_at = self._clock.monotonic() + FIRST_AFTER_S
        self._service.start()

    async def stop(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def leave(self) -> None:
        """Unregister everywhere (B-10)."""
        if not self._nameservers:
            return
        # Stop first: a round under way would register this broker again.
        await self._service.stop()
        identity = self.identity
        header = UnregisterBrokerRequestHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            broker_id=identity.broker_id,
        )
        for address in self._nameservers:
            try:
                expect(await self._client.call(address, header, timeout_s=UNREGISTER_TIMEOUT_S))
            except PeerError as exc:
                # A name server that cannot be reached forgets a silent broker by itself.
                log.info("nameserver.not_told", nameserver=address, reason=str(exc))

    def topic_changed(self, _topic: str) -> None:
        """There may be something to announce."""
        if self._nameservers:
            self._service.wakeup()

    def permission_changed(self) -> None:
        """The whole table looks different: register anew (O-7)."""
        self._topics.note_new_permission(self._clock.time_ms())
        if self._nameservers:
            self._again = True
            self._service.wakeup()

    def role_changed(self) -> None:
        """Tell the name servers at once, with all topics (W-6)."""
        if self._service.running:
            self._again = True
            self._service.wakeup()

    def nameserver_lost(self, peer: Peer) -> None:
        """A name server closed its connection, and with it forgot us: register soon."""
        if self._service.running:
            log.warning("nameserver.lost", nameserver=peer.address)
            self._again = True
            self._service.wakeup()

    # behaviour 47
    async def register(self, topics: Sequence[str] | None = None) -> None:
        """Register all topics, or some, with every name server in parallel."""
        wrapper = self._topics.wrapper(topics, permission=self._rules.permission())
        timeout_s = self._rules.timeout_s if topics is None else INCREMENT_TIMEOUT_S
        registering = [
            self._register_with(address, wrapper, timeout_s) for address in self._nameservers
        ]
        if len(registering) == 1:  # mostly; it needs no task of its own
            outcomes = [await registering[0]]
        else:
            outcomes = await asyncio.gather(*registering)
        if topics is None:
            self.registered_with = frozenset(
                address
                for address, outcome in zip(self._nameservers, outcomes, strict=True)
                if outcome is not None
            )
            answer = next((outcome for outcome in outcomes if outcome is not None), None)
            if answer is not None:
                self._take_orders(answer)
                self._take_master(answer)
        elif any(outcome is None for outcome in outcomes):
            # A name server that does not know us refuses a single topic (N-14).
            self._again = True

    # -- inside -------------------------------------------------------------------------------

    def _take_again(self) -> bool:
        again, self._again = self._again, False
        return again

    # behaviours 46 and 48
    async def _tick(self) -> float:
        """Register what is due; returns seconds until the next full registration."""
        changed, waiting = self._announcements.take()
        try:
            # A full round that was asked for does not postpone the periodic one.
            is_time = self._clock.monotonic() >= self._full_at
            if self._take_again() or is_time:
                if self._rules.force or changed or await self._anybody_needs_it():
                    await self.register()
                if is_time:
                    self._full_at = self._clock.monotonic() + self._rules.period_s
            elif changed:
                # 5.x registers only what changed, 4.9 mostly everything (B-6).
                await self.register(changed if self._rules.incremental else None)
                # A name server that does not know this broker yet refused the change.
                if self._take_again():
                    await self.register()
        finally:
            for callback in waiting:
                callback()
        return max(0.0, self._full_at - self._clock.monotonic())

    async def _register_with(
        self, address: str, wrapper: TopicConfigSerializeWrapper, timeout_s: float
    ) -> Command | None:
        identity = self.identity
        body = encode_body(
            RegisterBrokerBody(topic_config_serialize_wrapper=wrapper), self._client.encoding
        )
        header = RegisterBrokerRequestHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            # Java's CRC has no sign bit.
            body_crc32=crc32(body) & 0x7FFFFFFF,
            heartbeat_timeout_millis=self._rules.timeout_ms,
            enable_acting_master=self._rules.enable_acting_master,
        )
        try:
            calling = self._client.call(address, header, body, timeout_s=timeout_s)
            return expect(await self._clock.peer_answer(calling, address, timeout_s))
        except (PeerError, TimeoutError) as exc:
            log.warning("registration.failed", nameserver=address, reason=str(exc))
            return None

    # behaviour 49
    async def _anybody_needs_it(self) -> bool:
        """Whether any name server has another version, or does not answer (B-3)."""
        answers = await asyncio.gather(
            *(self._needs_registration(address) for address in self._nameservers)
        )
        return any(answers)

    async def _needs_registration(self, address: str) -> bool:
        identity = self.identity
        version = self._topics.data_version
        header = QueryDataVersionRequestHeader(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster_name,
            broker_id=identity.broker_id,
        )
        try:
            calling = self._client.call(address, header, version, timeout_s=QUERY_TIMEOUT_S)
            response = expect(await self._clock.peer_answer(calling, address, QUERY_TIMEOUT_S))
            if response.header(QueryDataVersionResponseHeader).changed:
                return True
            # As in RocketMQ, a different version in the answer counts, whatever the flag says.
            body = response.body_view
            return bool(body) and decode_body(body, DataVersion, response.encoding) != version
        except (PeerError, BrokerError, TimeoutError) as exc:
            log.info("data_version.unknown", nameserver=address, reason=str(exc))
            # Register when in doubt: a broker that is not known gets no clients.
            return True

    def _take_master(self, answer: Command) -> None:
        """Where the first answer says that the master is (H-6, H-7)."""
        if self.identity.role.leads:
            return
        try:
            header = answer.header(RegisterBrokerResponseHeader)
        except BadRequestError as exc:
            log.warning("master.unreadable", reason=str(exc))
            return
        self._rules.master_told.emit(header.master_addr or None, header.ha_server_addr or None)

    def _take_orders(self, answer: Command) -> None:
        """Topics in the first answer's order table are ordered; in 4.9 no others are (B-8)."""
        if not answer.body_view:
            return
        try:
            table = decode_body(answer.body_view, KVTable, answer.encoding).table
        except BadRequestError as exc:
            log.warning("order_table.unreadable", reason=str(exc))
            return
        self._topics.take_order_table(table, self._clock.time_ms())
