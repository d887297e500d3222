"""Brokers register, leave and give signs of life (N-10 to N-25).

REGISTER_BROKER (103), UNREGISTER_BROKER (104), QUERY_DATA_VERSION (322), BROKER_HEARTBEAT (904).
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import structlog

from pocketmq.nameserver.kv_config import ORDER_TOPIC_CONFIG, KvConfig
from pocketmq.nameserver.processors.registration_limits import RegistrationLimits
from pocketmq.nameserver.registration import Outcome, Registration
from pocketmq.nameserver.route_table import RouteTable
from pocketmq.protocol.bodies.compressed_registration import decode_compressed
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfigSerializeWrapper,
)
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.headers.route import (
    BrokerHeartbeatRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    UnregisterBrokerRequestHeader,
)
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile.nameserver import NameServerProfile

log = structlog.get_logger()

VERSION_3_0_11 = 37
"""From this requester version on the body is a `RegisterBrokerBody` (E-7)."""


class _Departure(NamedTuple):
    cluster: str
    broker_name: str
    address: str


class RegisterProcessor:
    """Enters into the route table what brokers register.

    Args:
        table: Where it goes.
        kv: Holds the order configuration that brokers get back (N-18).
        clock: Its monotonic time is that of the live table.
        profile: 4.9 unregisters inline and by id, 5.x in the background and by address.
        defer: Calls a function soon; where queued unregistrations are carried out.
        queue_capacity: Unregistrations that may wait at once (N-19).
        return_order_config: Whether brokers get the order configuration.
        budget: What a registration may hold.
    """

    def __init__(
        self,
        table: RouteTable,
        kv: KvConfig,
        clock: Clock,
        profile: NameServerProfile,
        *,
        defer: Callable[[Callable[[], None]], object],
        queue_capacity: int = 3000,
        return_order_config: Callable[[], bool] = lambda: True,
        budget: BudgetSource = default_budget,
    ) -> None:
        self._budget = budget
        self._limits = RegistrationLimits(table, budget)
        self._table = table
        self._kv = kv
        self._clock = clock
        self._profile = profile
        self._defer = defer
        self._queue_capacity = queue_capacity
        self._return_order_config = return_order_config
        self._departures: deque[_Departure] = deque()

    @handles(RequestCode.REGISTER_BROKER)
    def register(self, peer: Peer, request: Command) -> Reply:
        """Enter a broker and its topics; a slave is told its master's addresses (N-17)."""
        header = request.header(RegisterBrokerRequestHeader)
        body = self._body(header, request)
        wrapper = body.topic_config_serialize_wrapper
        # Checked before anything is entered: a registration is all or nothing.
        self._limits.check(header, body)
        # A broker that left and registers again in one batch of frames must stay registered: its
        # queued unregistration is carried out first.
        self.carry_out_departures()
        registered = self._table.register(
            Registration(
                cluster=header.cluster_name,
                broker_name=header.broker_name,
                broker_id=header.broker_id,
                address=header.broker_addr,
                ha_address=header.ha_server_addr,
                channel=peer,
                topics=wrapper.topic_config_table,
                data_version=wrapper.data_version,
                filter_servers=body.filter_server_list,
                timeout_s=None
                if header.heartbeat_timeout_millis is None
                else header.heartbeat_timeout_millis / 1000,
                enable_acting_master=header.enable_acting_master,
                zone_name=header.zone_name,
            ),
            self._clock.monotonic(),
        )
        # As in RocketMQ, the broker's name stays entered, without an address (N-14).
        if registered.outcome is Outcome.REFUSED:
            raise BadRequestError("register broker failed", code=ResponseCode.SYSTEM_ERROR)
        # Another address holds the id with a newer state: this master came back too late (N-13).
        if registered.outcome is Outcome.IGNORED:
            log.warning(
                "broker.ignored", broker=header.broker_name, id=header.broker_id,
                address=header.broker_addr, reason="its id is held with a newer stateVersion",
            )  # fmt: skip
        elif registered.is_new:
            log.info(
                "broker.registered", broker=header.broker_name, id=header.broker_id,
                address=header.broker_addr, cluster=header.cluster_name,
                topics=registered.topics_applied,
            )  # fmt: skip
        reply = RegisterBrokerResponseHeader(
            ha_server_addr=registered.master_ha_address, master_addr=registered.master_address
        )
        # By option, answers include the order table, by which brokers mark ordered topics (N-18).
        order_config = self._kv.namespace(ORDER_TOPIC_CONFIG) if self._return_order_config() else {}
        if not order_config:
            return request.reply(reply)
        return request.reply(reply, encode_body(KVTable(table=order_config), request.encoding))

    @handles(RequestCode.UNREGISTER_BROKER)
    def unregister(self, _peer: Peer, request: Command) -> Reply:
        """Remove a broker: at once in 4.9; in 5.x soon, together with others (N-19)."""
        header = request.header(UnregisterBrokerRequestHeader)
        departure = _Departure(header.cluster_name, header.broker_name, header.broker_addr)
        # 4.9 removes a broker at once, by its id; 5.x collects several and removes them by address
        # (N-19).
        if not self._profile.unregister_in_background:
            by_id = header.broker_id if self._profile.unregister_by_broker_id else None
            self._carry_out(departure, by_id)
            return request.reply()
        # RocketMQ's queue has the same length, and answers the same when it is full (N-19).
        if len(self._departures) >= self._queue_capacity:
            raise BadRequestError(
                f"{self._queue_capacity} unregistrations are already waiting, so no more are "
                "accepted; try again later",
                code=ResponseCode.SYSTEM_ERROR,
            )
        # All that come in this turn are carried out together, one for each broker.
        if not self._departures:
            self._defer(self.carry_out_departures)
        self._departures.append(departure)
        return request.reply()

    @handles(RequestCode.QUERY_DATA_VERSION)
    def query_data_version(self, _peer: Peer, request: Command) -> Reply:
        """Whether this copy of a broker's topics is out of date; also a sign of life (N-24)."""
        header = request.header(QueryDataVersionRequestHeader)
        version = decode_request_body(request, DataVersion)
        key = self._table.key(header.cluster_name, header.broker_addr)
        changed = self._table.is_changed(header.cluster_name, header.broker_addr, version)
        if not changed or self._profile.changed_versions_keep_alive:
            self._table.live.refresh(key, self._clock.monotonic())
        live = self._table.live.get(key)
        # The version of the broker's topics that this nameserver knows.
        body = b"" if live is None else encode_body(live.data_version, request.encoding)
        return request.reply(QueryDataVersionResponseHeader(changed=changed), body)

    @handles(RequestCode.BROKER_HEARTBEAT)
    def heartbeat(self, _peer: Peer, request: Command) -> Reply:
        """Note that a broker is alive; nothing else changes (N-25)."""
        header = request.header(BrokerHeartbeatRequestHeader)
        key = self._table.key(header.cluster_name, header.broker_addr)
        self._table.live.refresh(key, self._clock.monotonic())
        return request.reply()

    def carry_out_departures(self) -> None:
        """Remove the brokers whose unregistration was queued."""
        while self._departures:
            self._carry_out(self._departures.popleft(), None)

    def _carry_out(self, departure: _Departure, broker_id: int | None) -> None:
        cluster, name, address = departure
        is_gone = self._table.unregister(cluster, name, address, broker_id)
        log.info("broker.unregistered", broker=name, address=address, group_gone=is_gone)

    def _body(self, header: RegisterBrokerRequestHeader, request: Command) -> RegisterBrokerBody:
        data = request.body_view
        # 0 means that an old broker did not compute it.
        if header.body_crc32 and header.body_crc32 != zlib.crc32(data) & 0x7FFFFFFF:
            raise BadRequestError("crc32 not match", code=ResponseCode.SYSTEM_ERROR)
        # Without a body, a broker only says that it is there (N-11).
        if not data:
            return RegisterBrokerBody()
        if header.compressed:
            return decode_compressed(data, self._budget())
        # Brokers before 3.0.11 send only the table of topics (E-7).
        if request.version >= VERSION_3_0_11:
            return decode_request_body(request, RegisterBrokerBody)
        wrapper = decode_request_body(request, TopicConfigSerializeWrapper)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper, filter_server_list=None)
