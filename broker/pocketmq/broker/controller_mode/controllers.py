"""Questions to the controllers: finds the one that leads, and asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from pocketmq.broker.controller_mode.identity import Identity
from pocketmq.protocol.bodies.controller import SyncStateSet
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BrokerError, ConnectError, RemotingError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.controller import (
    AlterSyncStateSetRequestHeader,
    ApplyBrokerIdRequestHeader,
    ElectMasterRequestHeader,
    ElectMasterResponseHeader,
    GetControllerMetaDataRequestHeader,
    GetMetaDataResponseHeader,
    GetNextBrokerIdRequestHeader,
    GetNextBrokerIdResponseHeader,
    GetReplicaInfoRequestHeader,
    GetReplicaInfoResponseHeader,
    RegisterBrokerToControllerRequestHeader,
    RegisterBrokerToControllerResponseHeader,
)
from pocketmq.protocol.headers.route import BrokerHeartbeatRequestHeader
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.clock import Clock

log = structlog.get_logger()

CALL_S = 3.0
"""Real seconds for an answer."""


class Verdict(NamedTuple):
    """Who is master, as the controllers say."""

    master_id: int | None
    master_address: str | None
    epoch: int
    in_sync: frozenset[int] = frozenset()
    set_epoch: int = 0


class Controllers:
    """The group, as a broker sees it.

    Args:
        addresses: of all controllers.
        client: connections to them.
        clock: real or manual.
    """

    def __init__(self, addresses: Sequence[str], client: RemotingClient, clock: Clock) -> None:
        self._addresses = tuple(addresses)
        self._client = client
        self._clock = clock
        self._leader: str | None = None
        self._silent: set[str] = set()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def next_id(self, cluster: str, name: str) -> int:
        """An id that nobody has."""
        header = GetNextBrokerIdRequestHeader(cluster_name=cluster, broker_name=name)
        reply = expect(await self._ask(header))
        return reply.header(GetNextBrokerIdResponseHeader).next_broker_id or 1

    async def claim(self, identity: Identity) -> bool:
        """Claim an id; False when somebody else has it."""
        header = ApplyBrokerIdRequestHeader(
            cluster_name=identity.cluster,
            broker_name=identity.name,
            applied_broker_id=identity.broker_id,
            register_check_code=identity.check_code,
        )
        reply = expect(await self._ask(header), ResponseCode.CONTROLLER_BROKER_ID_INVALID)
        return reply.code == ResponseCode.SUCCESS

    async def register(self, identity: Identity, address: str) -> Verdict:
        """Tell where this broker is; who is master, if one is alive."""
        header = RegisterBrokerToControllerRequestHeader(
            cluster_name=identity.cluster,
            broker_name=identity.name,
            broker_id=identity.broker_id,
            broker_address=address,
        )
        reply = expect(await self._ask(header))
        answer = reply.header(RegisterBrokerToControllerResponseHeader)
        return _verdict(reply, answer.master_broker_id, answer.master_address, answer.master_epoch)

    async def master_of(self, name: str) -> Verdict:
        """Who is recorded as master."""
        reply = expect(await self._ask(GetReplicaInfoRequestHeader(broker_name=name)))
        answer = reply.header(GetReplicaInfoResponseHeader)
        return _verdict(reply, answer.master_broker_id, answer.master_address, answer.master_epoch)

    async def elect(self, identity: Identity, designated: int | None = None) -> Verdict | None:
        """Ask for a master; None when nobody may be.

        Args:
            identity: of who asks.
            designated: the id of who is to be master, if it is alive and in sync.
        """
        header = ElectMasterRequestHeader(
            cluster_name=identity.cluster,
            broker_name=identity.name,
            broker_id=identity.broker_id if designated is None else designated,
            designate_elect=designated is not None,
        )
        reply = expect(
            await self._ask(header),
            ResponseCode.CONTROLLER_MASTER_STILL_EXIST,
            ResponseCode.CONTROLLER_ELECT_MASTER_FAILED,
        )
        # No replica in sync is alive. That is no error: the caller asks again later.
        if reply.code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED:
            return None
        answer = reply.header(ElectMasterResponseHeader)
        verdict = _verdict(
            reply, answer.master_broker_id, answer.master_address, answer.master_epoch
        )
        return verdict._replace(set_epoch=answer.sync_state_set_epoch or 0)

    async def alter(
        self, identity: Identity, epoch: int, ids: frozenset[int], set_epoch: int
    ) -> Command:
        """Say who is in sync; the answer, whatever its code."""
        header = AlterSyncStateSetRequestHeader(
            broker_name=identity.name,
            master_broker_id=identity.broker_id,
            master_epoch=epoch,
        )
        body = SyncStateSet(sync_state_set=set(ids), sync_state_set_epoch=set_epoch)
        return await self._ask(header, encode_body(body, self._client.encoding))

    async def heartbeat(self, header: BrokerHeartbeatRequestHeader) -> None:
        """Tell every controller that this broker lives; those that cannot be reached are left."""
        await asyncio.gather(*(self._heartbeat(address, header) for address in self._addresses))

    async def _heartbeat(self, address: str, header: BrokerHeartbeatRequestHeader) -> None:
        try:
            await self._client.oneway(address, header)
            self._silent.discard(address)
        except ConnectError as exc:
            if address not in self._silent:
                self._silent.add(address)
                log.warning("controller.unreachable", controller=address, reason=str(exc))

    # -- inside ---------------------------------------------------------------------------------

    async def _ask(self, header: Header, body: bytes = b"") -> Command:
        """Ask the leader; once more when another one leads by now.

        Raises:
            RemotingError: nobody answers.
            BrokerError: no controller leads.
        """
        for attempt in (1, 2):
            leader = self._leader or await self._find_leader()
            try:
                reply = await self._clock.peer_answer(
                    self._client.call(leader, header, body, timeout_s=CALL_S), leader
                )
            except RemotingError:
                # The leader may be dead: the next attempt asks the controllers who leads.
                self._leader = None
                if attempt == 2:
                    raise
                continue
            if reply.code != ResponseCode.CONTROLLER_NOT_LEADER:
                return reply
            self._leader = None
        return expect(reply)

    async def _find_leader(self) -> str:
        failure: RemotingError | BrokerError | None = None
        for address in self._addresses:
            try:
                reply = expect(
                    await self._clock.peer_answer(
                        self._client.call(
                            address, GetControllerMetaDataRequestHeader(), timeout_s=CALL_S
                        ),
                        address,
                    )
                )
            except (RemotingError, BrokerError) as exc:
                # Any other controller that answers knows the leader as well.
                failure = exc
                continue
            leader = reply.header(GetMetaDataResponseHeader).controller_leader_address
            if leader:
                self._leader = leader
                return leader
        raise failure or BrokerError(
            ResponseCode.CONTROLLER_NOT_LEADER, "no controller leads at the moment"
        )


def _verdict(
    reply: Command, master_id: int | None, address: str | None, epoch: int | None
) -> Verdict:
    body = reply.body_view
    told = decode_body(body, SyncStateSet, reply.encoding) if body else SyncStateSet()
    ids = frozenset(told.sync_state_set or ())
    return Verdict(master_id, address, epoch or 0, ids, told.sync_state_set_epoch)
