"""`Proxy`: connects client, RPCs, gRPC server and timers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from pocketmq.client.config import ENCODINGS, ClientConfig
from pocketmq.client.instance import ClientInstance
from pocketmq.client.instances import acquire, release
from pocketmq.operation.control.processor import ControlProcessor
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.operation.grpc_ports.requests import RegisterProxyRequestHeader
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.dispatch import Dispatcher
from pocketmq.protocol.errors import BrokerError
from pocketmq.protocol.releases import known_in
from pocketmq.protocol.transport.network import Listener, Network
from pocketmq.protocol.transport.tls.server_tls import ServerTls
from pocketmq.proxy.config import ProxyConfig
from pocketmq.proxy.edge.accounts import Accounts
from pocketmq.proxy.edge.brokers import Brokers
from pocketmq.proxy.edge.checks import CheckedTopics
from pocketmq.proxy.edge.consuming import Consuming
from pocketmq.proxy.edge.front import Front
from pocketmq.proxy.edge.guard import AccessRules, Guard
from pocketmq.proxy.edge.members import MembersProcessor
from pocketmq.proxy.edge.parts import Parts
from pocketmq.proxy.edge.producing import Producing
from pocketmq.proxy.edge.routing import Routing
from pocketmq.proxy.edge.server import GrpcServer, Unary
from pocketmq.proxy.edge.telemetry import Telemetry
from pocketmq.proxy.edge.tools_door import ToolsDoor
from pocketmq.proxy.settings.clients import Client, Clients
from pocketmq.proxy.settings.limits import Limits
from pocketmq.proxy.transactions.data import OpenTransactions
from pocketmq.runtime.addresses import address_text, split_address
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PocketMQError
from pocketmq.runtime.lifetime import StartStop
from pocketmq.runtime.periodic import PeriodicService
from pocketmq.runtime.ports import told_ip
from pocketmq.runtime.profile import PROFILE_5_X, Profile
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

SWEEP_S: Final = 10.0
"""Between two looks for clients that are gone, on the clock (G-41)."""

GRACE_S: Final = 1.0
"""Real seconds that open calls have when it stops: streams and polls last for ever."""

HEARTBEAT_MS: Final = 20_000
"""Between two heartbeats to brokers, as RocketMQ's proxy has it (G-72)."""


ANNOUNCE_S: Final = 10.0
"""Between two announcements to nameservers, on the clock."""

ANNOUNCE_TIMEOUT_S: Final = 1.0
"""Real seconds for an answer: a start does not wait long for a nameserver that is away."""


class Proxy(StartStop):
    """A gRPC proxy in front of brokers.

    Args:
        config: Its options.
        clock: Runs every timer but gRPC's own.
        network: Reaches brokers and name servers, and has the port for tools.
        profile: How the client behaves where releases differ.
        budget: What SDKs, and peers of the port for tools, may cost.
        events: Takes what happens here.
        tls: Of the port for SDKs; None: in plaintext only.
    """

    def __init__(
        self,
        config: ProxyConfig,
        clock: Clock,
        network: Network,
        profile: Profile = PROFILE_5_X,
        *,
        budget: Budget = DEFAULT_BUDGET,
        events: EventSink = NO_EVENTS,
        tls: ServerTls | None = None,
    ) -> None:
        self.config = config
        self.limits = Limits.of(budget, config.max_message_size)
        self.clients = Clients(self.limits, clock.time_ms, name=config.name, events=events)
        self._clock = clock
        self._network = network
        self._profile = profile
        self._budget = budget
        self._events = events
        self._control = ControlProcessor(clock, self.status, events)
        self._tasks = TaskOwner(f"proxy {config.name}")
        self._instance: ClientInstance | None = None
        self._listener: Listener | None = None
        self._server: GrpcServer | None = None
        self.front = Front(tls, budget.tls_handshakes)
        self._announcer: PeriodicService | None = None
        self._refused_by: set[str] = set()
        """Nameservers whose refusal was told; a restart of one, or of this proxy, begins anew."""
        self._sweeper: PeriodicService | None = None
        self._consuming: Consuming | None = None

    @property
    def port(self) -> int:
        """The port for tools, once started."""
        return self.config.port if self._listener is None else self._listener.port

    @property
    def grpc_port(self) -> int:
        """The port for SDKs, once started."""
        return self.front.port or self.config.grpc_port

    @property
    def endpoints(self) -> str:
        """`host:port` as SDKs are given it."""
        return address_text(self.config.host, self.grpc_port)

    @property
    def receives_waiting(self) -> int:
        """Receives that wait for a message, or for the end of their poll."""
        return 0 if self._consuming is None else self._consuming.waiting

    async def start(self) -> None:
        """Connect to nothing yet, and answer SDKs.

        Raises:
            PortInUseError: somebody else listens there.
        """
        try:
            await self._start()
        # Also after a cancelled start: its socket folder, ports and timers would outlive it.
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        config = self.config
        settings = ClientConfig(
            nameservers=config.nameservers,
            clock=self._clock,
            network=self._network,
            profile=self._profile,
            encoding=ENCODINGS[config.encoding],
            credentials=config.inner_credentials,
            heartbeat_broker_interval_ms=HEARTBEAT_MS,
            instance_name=f"rmq-proxy-{config.name}",
        )
        self._instance = instance = acquire(await settings.with_identity(unique=True))
        brokers = Brokers(instance)
        accounts = Accounts(brokers, self._budget.name_chars)
        parts = Parts(
            clock=self._clock,
            limits=self.limits,
            brokers=brokers,
            guard=Guard(self._rules(), accounts),
            clients=self.clients,
            transactions=OpenTransactions(self.limits, self._clock.time_ms),
            tasks=self._tasks,
            advertise=split_address(config.advertise) if config.advertise else None,
        )
        consuming = self._consuming = Consuming(parts)
        telemetry = Telemetry(parts, CheckedTopics(parts), self._ended)
        self._server = GrpcServer(
            rpcs(parts, telemetry, consuming),
            telemetry,
            consuming.receive_message,
            parts.guard,
            self.limits.max_message_size,
            self._budget,
        )
        knows = known_in(self._profile.release)
        dispatcher = (
            ToolsDoor(accounts, config.inner_credentials, self._tasks, lambda: self._budget, knows)
            if config.authentication_enabled
            else Dispatcher(lambda: self._budget, knows)
        )
        dispatcher.add(self._control, MembersProcessor(self.clients))
        self._listener = await self._network.serve(
            config.host, config.port, dispatcher, version=self._profile.client_version
        )
        instance.start()
        self._sweeper = PeriodicService("proxy.sweep", self._clock, SWEEP_S, telemetry.sweep)
        self._sweeper.start()
        consuming.renewing.start()
        # gRPC listens at a path in this folder, so the folder comes first.
        self.front.make_folder()
        await self._server.start(self.front.inner)
        # Last, so that an SDK that connects always finds gRPC behind the front.
        await self.front.start(config.host, config.grpc_port)
        self._announcer = PeriodicService("proxy.announce", self._clock, ANNOUNCE_S, self._announce)
        # Announce once before `start` returns, so that nameservers know this proxy at once.
        await self._announce()
        self._announcer.start()
        log.info("proxy.started", endpoints=self.endpoints)

    async def stop(self) -> None:
        """Take no more calls, end those that are open, leave the brokers; may be called twice."""
        announcer, self._announcer = self._announcer, None
        # Withdraw the announcement first, so that nobody is sent here while calls end.
        if announcer is not None:
            await announcer.stop()
            # The timer ends first: an announcement under way would enter the proxy again.
            await self._announce(ends=True)
        # The port is free before calls have ended: the next proxy may listen there meanwhile.
        self.front.stop_accepting()
        if self._server is not None:
            await self._server.stop(GRACE_S)
        # After gRPC's grace, as the last answers go through these connections.
        await self.front.stop()
        if self._sweeper is not None:
            await self._sweeper.stop()
        consuming, self._consuming = self._consuming, None
        if consuming is not None:
            # Brokers can still be reached: messages that clients hold would stay hidden for up to
            # an hour.
            await consuming.renewing.stop()
        # The port for tools first, whose requests would start tasks.
        if self._listener is not None:
            await self._listener.close()
        await self._tasks.stop()
        instance, self._instance = self._instance, None
        if instance is not None:
            await release(instance)
        await self._control.stop()

    async def abort(self) -> None:
        """End at once, as a kill would: calls and connections break off."""
        # Cut the connections first: a server that stops says so to its peers, and a killed one does
        # not.
        await self.front.stop()
        if self._server is not None:
            await self._server.stop(0)

    def status(self) -> dict[str, str]:
        """What ROLE_STATUS tells."""
        return {
            "role": "proxy",
            "name": self.config.name,
            "profile": self._profile.name,
            "endpoints": self.endpoints,
            "clients": str(len(self.clients)),
            "receives": str(self.receives_waiting),
        }

    def _rules(self) -> AccessRules:
        config = self.config
        return AccessRules(
            authentication=config.authentication_enabled,
            authorization=config.authorization_enabled,
            unauthenticated=config.whitelist("authentication_whitelist"),
            unauthorized=config.whitelist("authorization_whitelist"),
            longest_prefix_first=self._profile.broker.longest_prefix_decides,
        )

    async def _announce(self, *, ends: bool = False) -> None:
        """Tell each nameserver where this proxy is, for SDKs at other ports (G-133)."""
        instance, host = self._instance, told_ip(self.config.host)
        if instance is None:
            return
        header = RegisterProxyRequestHeader(
            name=self.config.name,
            endpoints=address_text(host, self.grpc_port),
            address=address_text(host, self.port),
            ends=ends or None,
        )
        for nameserver in self.config.nameservers:
            try:
                await instance.api.call(nameserver, header, timeout_s=ANNOUNCE_TIMEOUT_S)
            except PocketMQError as exc:
                self._not_announced(nameserver, exc)
            else:
                self._refused_by.discard(nameserver)

    def _not_announced(self, nameserver: str, exc: PocketMQError) -> None:
        is_refused = isinstance(exc, BrokerError) and exc.code == ResponseCode.NO_PERMISSION
        # Else it is RocketMQ's, which knows no proxies, or is away.
        if not is_refused or nameserver in self._refused_by:
            log.debug("proxy.not_announced", nameserver=nameserver, reason=str(exc))
            return
        # Once, and not every 10 s.
        self._refused_by.add(nameserver)
        log.warning(
            "proxy.not_announced", nameserver=nameserver, reason=str(exc),
            advice="nobody passes SDKs on to it. Where members must prove who they are, it gets no"
            " routes either, unless strangers may read them: start the proxy with"
            " --members-must-prove, --member-secret-file and --tls-enable (docs/members.md). Where"
            " users are on, give it innerClientAuthenticationCredentials of a super user that"
            " nameservers know (docs/security.md)",
        )  # fmt: skip

    def _ended(self, client: Client) -> None:
        log.debug("proxy.client_ended", client_id=client.client_id)
        # `stop` sets this to None, and itself gives back what clients hold.
        if self._consuming is not None:
            self._consuming.ended(client)


def rpcs(parts: Parts, telemetry: Telemetry, consuming: Consuming) -> Mapping[str, Unary]:
    """Each RPC with one answer, and what gives it."""
    routing, producing = Routing(parts), Producing(parts)
    return {
        "QueryRoute": routing.query_route,
        "Heartbeat": telemetry.heartbeat,
        "NotifyClientTermination": telemetry.notify_client_termination,
        "QueryAssignment": consuming.query_assignment,
        "AckMessage": consuming.ack_message,
        "ChangeInvisibleDuration": consuming.change_invisible_duration,
        "ForwardMessageToDeadLetterQueue": consuming.forward_message_to_dead_letter_queue,
        "SendMessage": producing.send_message,
        "EndTransaction": producing.end_transaction,
        "RecallMessage": producing.recall_message,
    }
