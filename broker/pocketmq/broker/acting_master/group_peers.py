"""What brokers of such a group say to name servers and to each other: 901, 904, 906, 43, 45."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from pocketmq.protocol.bodies.route import BrokerMemberGroupBody
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import BadRequestError, BrokerError, RemotingError
from pocketmq.protocol.header import Header
from pocketmq.protocol.headers.route import (
    BrokerHeartbeatRequestHeader,
    GetBrokerMemberGroupRequestHeader,
)
from pocketmq.protocol.transport.remoting import RemotingClient, expect
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import PeerError

log = structlog.get_logger()

NO_ANSWER = (PeerError, RemotingError, BrokerError, BadRequestError)
"""What a question comes to that is not answered, or not well."""


class GroupPeers:
    """Connections to name servers and to other brokers of the group.

    Args:
        cluster: of the broker.
        name: of the broker.
        nameservers: addresses; all hear heartbeats, the first that knows the group is asked.
        client: the connections.
        clock: is told of waits for answers.
    """

    def __init__(
        self,
        cluster: str,
        name: str,
        nameservers: Sequence[str],
        client: RemotingClient,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._nameservers = tuple(dict.fromkeys(nameservers))
        self._silent: set[str] = set()
        """Name servers that did not take the last heartbeat."""
        self._client = client
        self._clock = clock

    @property
    def has_nameservers(self) -> bool:
        return bool(self._nameservers)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def heartbeat(self, own_address: str) -> None:
        """Tell all name servers that this broker is alive (N-25)."""
        header = BrokerHeartbeatRequestHeader(
            cluster_name=self._cluster, broker_addr=own_address, broker_name=self._name
        )
        await asyncio.gather(*(self._beat(each, header) for each in self._nameservers))

    async def _beat(self, nameserver: str, header: BrokerHeartbeatRequestHeader) -> None:
        try:
            await self.ask(nameserver, header)
        except NO_ANSWER as exc:
            if nameserver not in self._silent:
                log.warning("heartbeat.not_taken", nameserver=nameserver, reason=str(exc))
            self._silent.add(nameserver)
        else:
            self._silent.discard(nameserver)

    async def members(self) -> Mapping[int, str] | None:
        """Broker id -> address of the group; None when no name server answers."""
        header = GetBrokerMemberGroupRequestHeader(
            cluster_name=self._cluster, broker_name=self._name
        )
        known: Mapping[int, str] | None = None
        for nameserver in self._nameservers:
            try:
                answer = await self.ask(nameserver, header)
                body = decode_body(answer.body_view, BrokerMemberGroupBody, answer.encoding)
            except NO_ANSWER as exc:
                log.info("group.not_asked", nameserver=nameserver, reason=str(exc))
                continue
            known = body.broker_member_group.broker_addrs
            # A name server that has just started may know no members: ask the next one.
            if known:
                break
        return known

    async def ask(self, address: str, header: Header) -> Command:
        """A peer's answer.

        Raises:
            PeerError, RemotingError: it does not answer.
            BrokerError: it refuses.
        """
        return expect(await self._clock.peer_answer(self._client.call(address, header), address))
