"""What brokers ask: 1001 to 1004, 1012, 1013, and their heartbeats, BROKER_HEARTBEAT (904)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog
from msgspec.structs import replace

from pocketmq.controller import commands
from pocketmq.controller.consensus import Consensus
from pocketmq.controller.election import LOWEST_PRIORITY, Candidate
from pocketmq.controller.errors import ControllerRefusedError
from pocketmq.controller.liveness import LiveBroker, LiveBrokers, LiveKey, timeout_s
from pocketmq.controller.processors.bounds import Bounds
from pocketmq.controller.processors.deciding import decide, reply_of
from pocketmq.controller.replicas import Outcome, not_registered
from pocketmq.protocol.bodies.controller import SyncStateSet
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, error_reply, handles
from pocketmq.protocol.headers.controller import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    ElectMasterRequestHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    RegisterBrokerToControllerRequestHeader,
    RegisterBrokerToControllerResponseHeader,
)
from pocketmq.protocol.headers.route import BrokerHeartbeatRequestHeader
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()


class BrokerProcessor:
    """Answers brokers. Only the controller that serves does, but for heartbeats.

    Args:
        consensus: The group's state, and its way to change it.
        live: Who is alive.
        clock: When.
        bounds: Of what is asked.
        allows_unclean: Whether a replica that is not in sync may be elected.
    """

    def __init__(
        self,
        consensus: Consensus,
        live: LiveBrokers,
        clock: Clock,
        bounds: Bounds,
        *,
        allows_unclean: Callable[[], bool],
    ) -> None:
        self._consensus = consensus
        self._live = live
        self._clock = clock
        self._bounds = bounds
        self._allows_unclean = allows_unclean

    @handles(RequestCode.BROKER_HEARTBEAT)
    def heartbeat(self, peer: Peer, request: Command) -> Reply:
        """Note that a broker lives, and how much it has (D-40)."""
        header = request.header(BrokerHeartbeatRequestHeader)
        # A broker that has no id yet cannot be counted on (D-40).
        if header.broker_id is None:
            raise ControllerRefusedError(
                ResponseCode.CONTROLLER_INVALID_REQUEST, "a heartbeat needs the broker's id"
            )
        self._bounds.check_names(header.broker_name, header.broker_addr)
        key = LiveKey(header.broker_name, header.broker_id)
        before = self._live.get(key)
        if before is None:
            # Only a new broker takes more room.
            self._bounds.check_heartbeats(len(self._live) + 1)
        now = self._clock.monotonic()
        is_elsewhere = before is not None and before.address != header.broker_addr
        # The id is alive at another address: two brokers share it, or the broker has moved (D-21).
        if before is not None and is_elsewhere and self._is_alive(*key):
            log.warning(
                "broker.id_taken", broker=key.name, broker_id=key.broker_id,
                address=header.broker_addr, holder=before.address,
            )  # fmt: skip
            raise ControllerRefusedError(
                ResponseCode.CONTROLLER_BROKER_ID_INVALID, _taken(key, before.address)
            )
        candidate = Candidate(
            header.broker_id,
            -1 if header.epoch is None else header.epoch,
            -1 if header.max_offset is None else header.max_offset,
            LOWEST_PRIORITY if header.election_priority is None else header.election_priority,
        )
        # Only the values of this heartbeat count; older ones are replaced (W-10).
        self._live.put(
            LiveBroker(
                key,
                header.broker_addr,
                candidate,
                -1 if header.confirm_offset is None else header.confirm_offset,
                now,
                timeout_s(header.heartbeat_timeout_mills),
                peer,
            )
        )
        # Logged once, because heartbeats come every second.
        if before is None:
            log.info("broker.alive", broker=key.name, broker_id=key.broker_id, peer=peer.address)
        return request.reply(remark="Heart beat success")

    @handles(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID)
    def next_id(self, _peer: Peer, request: Command) -> Reply:
        """An id that nobody has (D-20)."""
        header = request.header(GetNextBrokerIdRequestHeader)
        self._consensus.check_serving()
        return request.reply(
            GetNextBrokerIdResponseHeader(
                cluster_name=header.cluster_name,
                broker_name=header.broker_name,
                next_broker_id=self._consensus.replicas.next_id(header.broker_name),
            )
        )

    @handles(RequestCode.CONTROLLER_APPLY_BROKER_ID)
    def apply_id(self, peer: Peer, request: Command) -> Reply:
        """Claim an id (D-21)."""
        header = request.header(ApplyBrokerIdRequestHeader)
        self._bounds.check_names(
            header.broker_name, header.cluster_name, header.register_check_code.partition(";")[0]
        )
        self._bounds.check_lengths(header.register_check_code)
        command = commands.ApplyId(
            header.cluster_name,
            header.broker_name,
            header.applied_broker_id,
            header.register_check_code,
            self._bounds.limits,
        )
        return decide(self._consensus, peer, request, command)

    @handles(RequestCode.CONTROLLER_REGISTER_BROKER)
    def register(self, peer: Peer, request: Command) -> Reply:
        """A broker with an id tells its address, and learns who is master (D-22)."""
        header = request.header(RegisterBrokerToControllerRequestHeader)
        self._consensus.check_serving()
        name, broker_id = header.broker_name, header.broker_id
        group = self._consensus.replicas.get(name)
        if group is None or broker_id not in group.replicas:
            return reply_of(request, _not_registered(header))
        if group.cluster != header.cluster_name:
            raise ControllerRefusedError(
                ResponseCode.CONTROLLER_INVALID_REQUEST,
                f"broker name {name} belongs to cluster {group.cluster}, not to cluster "
                f"{header.cluster_name}; choose another broker name, or give each cluster its own "
                "controllers",
            )
        self._bounds.check_names(header.broker_address)
        held = self._live.get(LiveKey(name, broker_id))
        # The id is alive at another address; only when that one is dead may the broker have moved.
        is_other = held is not None and held.address != header.broker_address
        if held is not None and is_other and self._is_alive(name, broker_id):
            raise ControllerRefusedError(
                ResponseCode.CONTROLLER_BROKER_ID_INVALID, _taken(held.key, held.address)
            )
        # The address is unchanged: no command is needed.
        if group.replicas[broker_id].address == header.broker_address:
            return self._registered(request, header)
        command = commands.SetAddress(
            header.cluster_name, name, broker_id, header.broker_address, self._bounds.limits
        )
        future = self._consensus.decide(command)
        future.add_done_callback(lambda done: self._address_set(peer, request, header, done))
        return None

    @handles(RequestCode.CONTROLLER_GET_REPLICA_INFO)
    def replica_info(self, _peer: Peer, request: Command) -> Reply:
        """Who is recorded as master, alive or not, and who is in sync (D-23)."""
        name = request.header(GetReplicaInfoRequestHeader).broker_name
        self._consensus.check_serving()
        group = self._consensus.replicas.get(name)
        if group is None:
            return request.reply(
                code=ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
                remark=f"{name} is not registered with the controllers",
            )
        header = GetReplicaInfoResponseHeader(
            master_broker_id=group.master_id,
            master_address=group.address_of(group.master_id),
            master_epoch=group.master_epoch,
        )
        return request.reply(header, encode_body(group.sync_state_set(), request.encoding))

    @handles(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET)
    def alter_set(self, peer: Peer, request: Command) -> Reply:
        """A master tells who is in sync (D-24)."""
        header = request.header(AlterSyncStateSetRequestHeader)
        body = decode_request_body(request, SyncStateSet)
        name = header.broker_name
        in_sync = sorted(body.sync_state_set or ())
        self._bounds.check_lengths(name)
        self._bounds.check_ids(in_sync)
        command = commands.AlterSet(
            name,
            header.master_broker_id,
            header.master_epoch,
            in_sync,
            body.sync_state_set_epoch,
            [each for each in in_sync if self._is_alive(name, each)],
        )
        return decide(self._consensus, peer, request, command)

    @handles(RequestCode.CONTROLLER_ELECT_MASTER)
    def elect_master(self, peer: Peer, request: Command) -> Reply:
        """Find a master, because a broker or a tool asks for one (D-25)."""
        header = request.header(ElectMasterRequestHeader)
        self._consensus.check_serving()
        name = header.broker_name
        self._bounds.check_lengths(name, header.cluster_name)
        group = self._consensus.replicas.get(name)
        if group is None:
            return reply_of(request, not_registered(name, None))
        command = commands.Elect(
            header.cluster_name,
            name,
            header.broker_id,
            header.designate_elect,
            self._live.candidates(name, set(group.replicas), self._clock.monotonic()),
            self._allows_unclean(),
        )
        return decide(self._consensus, peer, request, command)

    # -- inside ---------------------------------------------------------------------------------

    def _is_alive(self, name: str, broker_id: int | None) -> bool:
        return self._live.is_alive(name, broker_id, self._clock.monotonic())

    def _address_set(
        self,
        peer: Peer,
        request: Command,
        header: RegisterBrokerToControllerRequestHeader,
        done: asyncio.Future[Outcome],
    ) -> None:
        # This controller stops; the broker asks another one.
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, Exception):
            peer.reply(request, error_reply(peer, request, error))
        elif done.result().code != ResponseCode.SUCCESS:
            peer.reply(request, reply_of(request, done.result()))
        else:
            peer.reply(request, self._registered(request, header))

    def _registered(
        self, request: Command, header: RegisterBrokerToControllerRequestHeader
    ) -> Command:
        group = self._consensus.replicas.get(header.broker_name)
        if group is None:  # cleaned meanwhile
            return reply_of(request, _not_registered(header))
        answer = RegisterBrokerToControllerResponseHeader(
            cluster_name=header.cluster_name, broker_name=header.broker_name
        )
        # Only a living master is named: nobody can follow a dead one (D-22).
        if self._is_alive(header.broker_name, group.master_id):
            answer.master_broker_id = group.master_id
            answer.master_address = group.address_of(group.master_id)
            answer.master_epoch = group.master_epoch
            answer.sync_state_set_epoch = group.set_epoch
        return request.reply(answer, encode_body(group.sync_state_set(), request.encoding))


def _not_registered(header: RegisterBrokerToControllerRequestHeader) -> Outcome:
    """The refusal tells the names, as RocketMQ's does."""
    names = RegisterBrokerToControllerResponseHeader(
        cluster_name=header.cluster_name, broker_name=header.broker_name
    )
    return replace(not_registered(header.broker_name, header.broker_id), header=names)


def _taken(key: LiveKey, address: str) -> str:
    return (
        f"id {key.broker_id} of {key.name} is in use by the living broker at {address}; a copied"
        " store must be started without its brokerIdentity file"
    )
