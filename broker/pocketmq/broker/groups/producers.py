"""Connected producers by group: RocketMQ's ProducerManager (B-30)."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.broker.groups.consumers import ClientChannelInfo
from pocketmq.protocol.dispatch import Peer


class ProducerManager:
    """group -> channel -> client, and client id -> channel."""

    def __init__(self, *, expiry_s: float = 120.0) -> None:
        self.expiry_s = expiry_s
        self._groups: dict[str, dict[Peer, ClientChannelInfo]] = {}
        self._groups_of_channel: dict[Peer, set[str]] = {}
        self._channel_of_client: dict[str, Peer] = {}

    @property
    def groups(self) -> Mapping[str, Mapping[Peer, ClientChannelInfo]]:
        """All groups with members."""
        return self._groups

    def members(self, group: str) -> list[ClientChannelInfo]:
        """The group's connections on this broker."""
        return list(self._groups.get(group, {}).values())

    def channel_of(self, client_id: str) -> Peer | None:
        """The connection of a client, for replies and transaction checks."""
        return self._channel_of_client.get(client_id)

    def heartbeat(
        self, group: str, channel: Peer, client_id: str, *, language: int, version: int, now: float
    ) -> None:
        """Register one producer entry of a heartbeat."""
        members = self._groups.setdefault(group, {})
        info = members.get(channel)
        if info is None:
            info = members[channel] = ClientChannelInfo(channel, client_id, language, version, now)
            channel.keep(info.size_bytes)
            self._groups_of_channel.setdefault(channel, set()).add(group)
            # Requests to this client go over the connection that registered last (B-30).
            self._channel_of_client[client_id] = channel
        else:
            info.last_update_at = now

    def unregister(self, group: str, channel: Peer) -> ClientChannelInfo | None:
        """A client leaves a group; None when it was not in it."""
        members = self._groups.get(group)
        info = members.pop(channel, None) if members is not None else None
        if info is None:
            return None
        channel.keep(-info.size_bytes)
        if not members:
            del self._groups[group]
        groups = self._groups_of_channel[channel]
        groups.discard(group)
        if not groups:
            del self._groups_of_channel[channel]
            # Keep the entry if the client has registered over another connection since.
            if self._channel_of_client.get(info.client_id) is channel:
                del self._channel_of_client[info.client_id]
        return info

    def channel_closed(self, channel: Peer) -> list[str]:
        """A connection ended: the groups that lost it."""
        groups = sorted(self._groups_of_channel.get(channel, ()))
        for group in groups:
            self.unregister(group, channel)
        return groups

    def expire(self, now: float) -> list[ClientChannelInfo]:
        """Forget and return the channels silent for more than `expiry_s`; close them."""
        gone: dict[Peer, ClientChannelInfo] = {}
        for group, members in list(self._groups.items()):
            for info in list(members.values()):
                if now - info.last_update_at > self.expiry_s:
                    self.unregister(group, info.channel)
                    gone[info.channel] = info
        return list(gone.values())
