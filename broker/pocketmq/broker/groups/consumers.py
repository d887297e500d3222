"""Members and subscriptions of consumer groups: RocketMQ's ConsumerManager (B-20 to B-29).

A member of a group is a *channel*: a client with two connections is there twice. Subscriptions
belong to the group, and the last one made counts. So all members of a group must subscribe to the
same; here B does not, and nobody consumes what has the tag new any more:

    heartbeat of        members   subscriptions         changed
    A: orders, new      A         orders: new           yes: A and its topic are new
    A: orders, new      A         orders: new           no
    B: orders, paid     A B       orders: paid          yes: B is new
    A: orders, new      A B       orders: paid          no: B's was made later
    B: bills, *         A B       bills: *              yes: a topic came, another went

`changed` means that the members have to balance again; whoever calls tells them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from pocketmq.operation.events.groups import MemberJoined, MemberLeft
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.bodies.clients import ConsumerData
from pocketmq.protocol.dispatch import Peer
from pocketmq.protocol.messages.subscription import SubscriptionData

MEMBER_BYTES = 1024
"""About what a member of a group takes beside its client id: entries of some tables."""

SUBSCRIPTION_BYTES = 1024
"""About what a subscription takes beside its texts."""

TAG_BYTES = 200
"""About what a tag of it takes beside its text, with its hash."""


class ClientChannelInfo:
    """One connection of one client."""

    __slots__ = ("channel", "client_id", "language", "last_update_at", "size_bytes", "version")

    def __init__(
        self, channel: Peer, client_id: str, language: int, version: int, now: float
    ) -> None:
        self.channel = channel
        self.client_id = client_id
        self.language = language
        self.version = version
        self.last_update_at = now
        """The caller's monotonic seconds at its last heartbeat."""
        self.size_bytes = MEMBER_BYTES + len(client_id)
        """What it counts as memory of its connection."""


class ConsumerGroupInfo:
    """One group as this broker sees it."""

    __slots__ = (
        "consume_from_where",
        "consume_type",
        "fingerprint",
        "group",
        "id_lists",
        "ids",
        "is_broadcasting",
        "members",
        "message_model",
        "payer",
        "size_bytes",
        "subscriptions",
    )

    def __init__(self, group: str) -> None:
        self.group = group
        self.consume_type = "CONSUME_PASSIVELY"
        self.message_model = "CLUSTERING"
        self.is_broadcasting = False
        """Whether each member consumes every message; `take_model` sets both."""
        self.consume_from_where = "CONSUME_FROM_LAST_OFFSET"
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.members: dict[Peer, ClientChannelInfo] = {}
        self.ids: dict[str, int] = {}
        """Client id -> number of its channels."""
        self.fingerprint = 0
        """Of the last heartbeat that carried subscriptions (B-29)."""
        self.id_lists: dict[int, bytes] = {}
        """Encoded answers to GET_CONSUMER_LIST, by encoding; empty again when members change."""
        self.payer: Peer | None = None
        """The member whose memory the subscriptions count as: who changed them last."""
        self.size_bytes = 0
        """What they count."""

    def take_model(self, model: str) -> None:
        """CLUSTERING or BROADCASTING, as the members say; anything else is no broadcasting."""
        self.message_model = model
        self.is_broadcasting = model == "BROADCASTING"

    def client_ids(self) -> list[str]:
        """One per channel, in the order in which they came (B-28)."""
        return [info.client_id for info in self.members.values()]

    def find(self, client_id: str) -> ClientChannelInfo | None:
        """A channel of this client; O(members)."""
        return next((i for i in self.members.values() if i.client_id == client_id), None)

    def add(self, info: ClientChannelInfo) -> None:
        """Add a new channel."""
        info.channel.keep(info.size_bytes)
        self.members[info.channel] = info
        self.ids[info.client_id] = self.ids.get(info.client_id, 0) + 1
        self.id_lists.clear()

    def remove(self, channel: Peer) -> ClientChannelInfo | None:
        """Drop a channel; None when it is no member."""
        info = self.members.pop(channel, None)
        if info is not None:
            self._forget_id(info.client_id)
            channel.keep(-info.size_bytes)
            # The subscriptions are charged to one of the members as long as the group exists.
            if self.payer is channel:
                self.charge(next(iter(self.members), None))
        return info

    def charge(self, payer: Peer | None) -> None:
        """Count the subscriptions as memory of this member from now on; None: of nobody."""
        if self.payer is not None:
            self.payer.keep(-self.size_bytes)
        self.payer = payer
        if payer is not None:
            # Recount: subscriptions may have changed since the last payer was charged.
            self.size_bytes = sum(map(_size_bytes, self.subscriptions.values()))
            payer.keep(self.size_bytes)

    def rename(self, info: ClientChannelInfo, client_id: str) -> None:
        """The channel now belongs to another client id."""
        self._forget_id(info.client_id)
        size_bytes = MEMBER_BYTES + len(client_id)
        info.channel.keep(size_bytes - info.size_bytes)
        info.size_bytes = size_bytes
        info.client_id = client_id
        self.ids[client_id] = self.ids.get(client_id, 0) + 1

    def _forget_id(self, client_id: str) -> None:
        self.id_lists.clear()
        left = self.ids[client_id] - 1
        if left:
            self.ids[client_id] = left
        else:
            del self.ids[client_id]


@dataclass(slots=True)
class HeartbeatOutcome:
    """What one consumer entry of a heartbeat did to its group."""

    changed: bool = False
    """A channel or a topic was added or removed: the members should rebalance (B-22, B-23)."""
    duplicate_client: bool = False
    """A new channel has a client id that another channel of the group already has."""
    topics_added: list[str] = field(default_factory=list)
    topics_removed: list[str] = field(default_factory=list)
    expressions_changed: list[str] = field(default_factory=list)
    """Topics whose subscription expression changed."""
    others: int = 0
    """How many other channels the group has; their subscriptions may disagree."""

    @property
    def disagrees(self) -> bool:
        """Whether a member changed others' subscriptions; their heartbeats change them back."""
        return self.others > 0 and bool(
            self.topics_added or self.topics_removed or self.expressions_changed
        )


class ConsumerManager:
    """group -> ConsumerGroupInfo, with indices so that no operation looks at foreign groups.

    Args:
        expiry_s: After this a channel is silent for too long (B-27).
        events: Told who joins and leaves.
        broker: Name of the broker, for them.
    """

    def __init__(
        self, *, expiry_s: float = 120.0, events: EventSink = NO_EVENTS, broker: str = ""
    ) -> None:
        self._events = events
        self._broker = broker
        self.expiry_s = expiry_s
        self._groups: dict[str, ConsumerGroupInfo] = {}
        self.groups: Mapping[str, ConsumerGroupInfo] = self._groups
        """All groups with members."""
        self._groups_of_channel: dict[Peer, set[str]] = {}
        self._groups_of_topic: dict[str, set[str]] = {}

    # -- reading ------------------------------------------------------------------------------

    def get(self, group: str) -> ConsumerGroupInfo | None:
        """The group, if it has a member here."""
        return self._groups.get(group)

    def groups_of_topic(self, topic: str) -> Collection[str]:
        """Groups whose members subscribe to the topic."""
        return self._groups_of_topic.get(topic, ())

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What the group wants of the topic, from heartbeats."""
        info = self._groups.get(group)
        return None if info is None else info.subscriptions.get(topic)

    # -- heartbeats ---------------------------------------------------------------------------

    def heartbeat(
        self,
        data: ConsumerData,
        channel: Peer,
        client_id: str,
        *,
        language: int,
        version: int,
        now: float,
        fingerprint: int = 0,
    ) -> HeartbeatOutcome:
        """Register one consumer entry of a heartbeat (B-22, B-23)."""
        info = self._groups.get(data.group_name)
        if info is None:
            info = self._groups[data.group_name] = ConsumerGroupInfo(data.group_name)
        # The newest heartbeat decides type, model and start position (B-22).
        info.consume_type = data.consume_type
        info.take_model(data.message_model)
        info.consume_from_where = data.consume_from_where
        info.fingerprint = fingerprint
        outcome = HeartbeatOutcome()
        self._see(info, channel, client_id, language, version, now, outcome)
        # The member that last changed the subscriptions is charged for their memory.
        if self._subscribe(info, data.subscription_data_set, outcome):
            info.charge(channel)
        outcome.others = len(info.members) - 1
        return outcome

    def heartbeat_without_subscriptions(
        self,
        data: ConsumerData,
        channel: Peer,
        client_id: str,
        *,
        language: int,
        version: int,
        now: float,
        fingerprint: int,
    ) -> tuple[HeartbeatOutcome, bool]:
        """Refresh a channel only (B-29); also whether the full heartbeat is wanted.

        It is when the group is unknown here or holds another fingerprint.
        """
        outcome = HeartbeatOutcome()
        info = self._groups.get(data.group_name)
        if info is None:
            # A short heartbeat cannot create a group: ask for the full one (B-29).
            return outcome, True
        self._see(info, channel, client_id, language, version, now, outcome)
        outcome.others = len(info.members) - 1
        return outcome, info.fingerprint != fingerprint

    def _see(
        self,
        info: ConsumerGroupInfo,
        channel: Peer,
        client_id: str,
        language: int,
        version: int,
        now: float,
        outcome: HeartbeatOutcome,
    ) -> None:
        member = info.members.get(channel)
        # A new connection counts as a change of the group (B-22).
        if member is None:
            outcome.changed = True
            outcome.duplicate_client = client_id in info.ids
            info.add(ClientChannelInfo(channel, client_id, language, version, now))
            self._groups_of_channel.setdefault(channel, set()).add(info.group)
            if self._events.is_on:
                self._events.emit(
                    MemberJoined(
                        *self._events.stamp(),
                        group=info.group,
                        client_id=client_id,
                        broker=self._broker,
                        model=info.message_model,
                    )
                )
            return
        # Another client id on the same connection is no change: the member is renamed (B-22).
        if member.client_id != client_id:
            outcome.duplicate_client = client_id in info.ids
            info.rename(member, client_id)
        member.language = language
        member.version = version
        member.last_update_at = now

    def _subscribe(
        self,
        info: ConsumerGroupInfo,
        wanted: Iterable[SubscriptionData],
        outcome: HeartbeatOutcome,
    ) -> bool:
        """Take over what is wanted; whether anything is kept anew or no more."""
        subscriptions = info.subscriptions
        topics = set()
        is_other = False
        for data in wanted:
            topics.add(data.topic)
            old = subscriptions.get(data.topic)
            if old is None:
                outcome.topics_added.append(data.topic)
                self._groups_of_topic.setdefault(data.topic, set()).add(info.group)
                subscriptions[data.topic] = data
                is_other = True
            # A newer version replaces the subscription, but does not count as a change of the group
            # (B-23).
            elif data.sub_version > old.sub_version:
                if data.sub_string != old.sub_string:
                    outcome.expressions_changed.append(data.topic)
                subscriptions[data.topic] = data
                is_other = True
        # Topics that the heartbeat does not name are removed, so members with different topics keep
        # changing the group (B-23).
        outcome.topics_removed = [topic for topic in subscriptions if topic not in topics]
        for topic in outcome.topics_removed:
            del subscriptions[topic]
            self._unlink_topic(info.group, topic)
        if outcome.topics_added or outcome.topics_removed:
            outcome.changed = True
        return is_other or bool(outcome.topics_removed)

    # -- leaving ------------------------------------------------------------------------------

    def unregister(self, group: str, channel: Peer) -> ConsumerGroupInfo | None:
        """Remove a client that unregisters from a group (B-25).

        The group as it was left, perhaps without members; None when the channel was not in it.
        """
        info = self._groups.get(group)
        member = None if info is None else self._remove(info, channel)
        if info is None or member is None:
            return None
        self._tell_left(info.group, member, "unregistered")
        return info

    def _remove(self, info: ConsumerGroupInfo, channel: Peer) -> ClientChannelInfo | None:
        member = info.remove(channel)
        if member is None:
            return None
        groups = self._groups_of_channel[channel]
        groups.discard(info.group)
        if not groups:
            del self._groups_of_channel[channel]
        self._drop_if_empty(info)
        return member

    def channel_closed(self, channel: Peer) -> list[ConsumerGroupInfo]:
        """A connection ended: the groups that lost it (B-26). O(its groups)."""
        left = []
        # Sorted, so that a close reports its groups in the same order each time.
        for group in sorted(self._groups_of_channel.pop(channel, ())):
            info = self._groups[group]
            member = info.remove(channel)
            self._drop_if_empty(info)
            left.append(info)
            if member is not None:
                self._tell_left(group, member, "closed")
        return left

    def _tell_left(
        self, group: str, member: ClientChannelInfo, how: Literal["unregistered", "closed"]
    ) -> None:
        if self._events.is_on:
            self._events.emit(
                MemberLeft(
                    *self._events.stamp(),
                    group=group,
                    client_id=member.client_id,
                    broker=self._broker,
                    how=how,
                )
            )

    def expire(self, now: float) -> list[ClientChannelInfo]:
        """Forget and return the channels silent for more than `expiry_s` (B-27).

        The caller closes them. They are removed first, so closing them notifies nobody:
        the other members notice at their own next rebalance. O(members).
        """
        gone: dict[Peer, ClientChannelInfo] = {}
        for info in list(self._groups.values()):
            late = [
                member
                for member in info.members.values()
                if now - member.last_update_at > self.expiry_s
            ]
            for member in late:
                self._remove(info, member.channel)
                # Keyed by connection: a client may be silent in several groups at once.
                gone[member.channel] = member
        return list(gone.values())

    def _drop_if_empty(self, info: ConsumerGroupInfo) -> None:
        if info.members:
            return
        del self._groups[info.group]
        for topic in info.subscriptions:
            self._unlink_topic(info.group, topic)

    def _unlink_topic(self, group: str, topic: str) -> None:
        groups = self._groups_of_topic.get(topic)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._groups_of_topic[topic]


def _size_bytes(data: SubscriptionData) -> int:
    """About what a subscription takes in memory."""
    tags = TAG_BYTES * (len(data.tags_set) + len(data.code_set)) + sum(map(len, data.tags_set))
    return SUBSCRIPTION_BYTES + len(data.topic) + len(data.sub_string) + tags
