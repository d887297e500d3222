"""Connections that a controller opens: to the other controllers, and to brokers it has news for."""

from __future__ import annotations

import structlog

from pocketmq.controller import consensus
from pocketmq.controller.liveness import LiveBroker
from pocketmq.controller.raft.messages import Envelope, Message
from pocketmq.protocol.bodies.controller import SyncStateSet
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import RemotingError
from pocketmq.protocol.headers.controller import (
    NotifyBrokerRoleChangedRequestHeader,
    RaftMessageRequestHeader,
)
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.network import Network
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.tasks import TaskOwner

log = structlog.get_logger()

MOST_WAITING = 64
"""Messages to a controller that is not connected; Raft sends them again."""


class ControllerLinks:
    """Sends Raft's messages; what cannot be sent is lost, and Raft sends it again.

    Args:
        network: Where.
        group: Named in each message, so that two groups do not mix.
        own_id: Of the sender.
        members: Id -> address.
        credentials: Sign the messages.
    """

    def __init__(
        self,
        network: Network,
        group: str,
        own_id: str,
        members: dict[str, str],
        credentials: Credentials | None = None,
    ) -> None:
        self._header = RaftMessageRequestHeader(group=group, sender=own_id)
        self._members = members
        self._client = RemotingClient(network, connect_timeout_s=1.0, credentials=credentials)
        self._tasks = TaskOwner("links")
        self._waiting: dict[str, list[Message]] = {}
        """For members to whom a connection is being opened."""
        self._unreachable: set[str] = set()

    def send(self, envelope: Envelope) -> None:
        """Give a message to the network."""
        channel = self._client.open_channel(self._members[envelope.to])
        if channel is not None:
            channel.oneway(self._header, consensus.encode(envelope.message))
            return
        waiting = self._waiting.get(envelope.to)
        # The first message opens the connection; later ones wait for it.
        if waiting is None:
            self._waiting[envelope.to] = [envelope.message]
            self._tasks.start(self._connect(envelope.to), name=f"connect {envelope.to}")
        elif len(waiting) < MOST_WAITING:
            # Bounded, because heartbeats to a member that is gone would pile up.
            waiting.append(envelope.message)

    async def close(self) -> None:
        """Close all connections."""
        await self._tasks.stop()
        await self._client.close()

    async def _connect(self, member: str) -> None:
        address = self._members[member]
        try:
            channel = await self._client.channel(address)
        except RemotingError as exc:
            # Logged once until the member is reached again: heartbeats come several times a second.
            if member not in self._unreachable:
                self._unreachable.add(member)
                log.warning("controller.unreachable", controller=member, reason=str(exc))
        else:
            self._unreachable.discard(member)
            for message in self._waiting[member]:
                channel.oneway(self._header, consensus.encode(message))
        finally:
            # Removed after a failure, too: otherwise no new attempt would be made.
            del self._waiting[member]


class RoleNotices:
    """Tells brokers of elections: NOTIFY_BROKER_ROLE_CHANGED (1008), oneway (D-44)."""

    def __init__(self, network: Network) -> None:
        self._clients = {
            encoding: RemotingClient(network, encoding=encoding) for encoding in Encoding
        }
        self._tasks = TaskOwner("notices")

    def send(
        self, broker: LiveBroker, header: NotifyBrokerRoleChangedRequestHeader, body: SyncStateSet
    ) -> None:
        """Tell one broker, in the encoding that it speaks itself; it asks anyway every 5 s."""
        self._tasks.start(self._send(broker, header, body), name=f"notice to {broker.address}")

    async def close(self) -> None:
        """Drop what was not sent."""
        await self._tasks.stop()
        for client in self._clients.values():
            await client.close()

    async def _send(
        self, broker: LiveBroker, header: NotifyBrokerRoleChangedRequestHeader, body: SyncStateSet
    ) -> None:
        # The encoding that the broker itself uses: it may know no other.
        client = self._clients[broker.channel.encoding]
        try:
            await client.oneway(broker.address, header, encode_body(body, client.encoding))
        except RemotingError as exc:
            log.warning("notice.lost", broker=broker.key.name, reason=str(exc))
