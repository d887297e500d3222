"""Clients join and leave: HEART_BEAT (34), UNREGISTER_CLIENT (35), closing (B-20 to B-30).

A broker learns who consumes from heartbeats alone. Each client sends one every 30 s to each broker
that it knows, with all its groups and what they subscribe to. Who is in a group, and with which
connection, is what a broker has to say about it; the members themselves decide who gets which
queue, and begin when they are told of a change (B-24):

    0 s     HEART_BEAT of A: group billing, orders with tag new    billing = {A}
            the group and %RETRY%billing are made if nobody did so before (B-21)
    5 s     HEART_BEAT of B: the same                              billing = {A, B}; A, B are told
    9 s     the connection of A ends: its process was killed       billing = {B}; B is told
    35 s    HEART_BEAT of B, its last: the machine vanishes
    160 s   no heartbeat for more than 120 s                       billing = {}; nobody is told

The last one is found by silent_clients.py, which looks every 10 s (B-27). consumers.py keeps the
groups, and is pure.
"""

from __future__ import annotations

import structlog

from pocketmq.broker.groups.consumer_notices import ConsumerNotices
from pocketmq.broker.groups.consumers import ConsumerManager, HeartbeatOutcome
from pocketmq.broker.groups.heartbeat_limits import HeartbeatLimits
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.operation.events.groups import MemberRefused
from pocketmq.operation.events.sink import NO_EVENTS, EventSink
from pocketmq.protocol.bodies.clients import ConsumerData, HeartbeatData
from pocketmq.protocol.body import decode_request_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.clients import HeartbeatResponseHeader, UnregisterClientRequestHeader
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile.broker import BrokerProfile

log = structlog.get_logger()

_LOGGED_CHARS = 300
"""Of the name of a group that does not exist; a peer may send one of any length."""

_LOGGED_GROUPS = 20
"""So many groups that a closed connection leaves have a log line each; a line takes some 40 us."""


class ClientProcessor:
    """Registers and removes clients, and notifies consumers when their group changes.

    Args:
        consumers: consumer groups.
        producers: producer groups.
        groups: subscription groups; heartbeats create unknown ones.
        topics: heartbeats create `%RETRY%group`.
        notices: notifies the members.
        limits: refuses heartbeats that waited too long or are too large.
        clock: stamps heartbeats.
        profile: what a heartbeat is answered.
        events: told of members that are not taken.
        broker: the broker's name, for events.
    """

    def __init__(
        self,
        consumers: ConsumerManager,
        producers: ProducerManager,
        groups: SubscriptionGroupManager,
        topics: TopicConfigManager,
        notices: ConsumerNotices,
        limits: HeartbeatLimits,
        clock: Clock,
        profile: BrokerProfile,
        *,
        events: EventSink = NO_EVENTS,
        broker: str = "",
    ) -> None:
        self._consumers = consumers
        self._producers = producers
        self._groups = groups
        self._topics = topics
        self._notices = notices
        self._limits = limits
        self._clock = clock
        self._profile = profile
        self._events = events
        self._broker = broker

    # -- coming ---------------------------------------------------------------------------------

    @handles(RequestCode.HEART_BEAT)
    def heartbeat(self, peer: Peer, request: Command) -> Reply:
        """Register all groups of a client (B-21)."""
        # Before it is decoded: a heartbeat that waited too long is refused at little cost (B-161).
        self._limits.check_waited()
        data = decode_request_body(request, HeartbeatData)
        self._limits.check(data)
        outdated = False
        for consumer in data.consumer_data_set:
            # One group is enough to ask for all subscriptions again (B-29).
            outdated |= self._consumer(peer, request, data, consumer)
        now = self._clock.monotonic()
        for producer in data.producer_data_set:
            self._producers.heartbeat(
                producer.group_name,
                peer,
                data.client_id,
                language=request.language,
                version=request.version,
                now=now,
            )
        # 4.9's answer has no fields (B-29).
        if not self._profile.heartbeat_v2:
            return request.reply()
        return request.reply(
            HeartbeatResponseHeader(
                support_heartbeat_v2=True,
                # Without a fingerprint (V1) the answer is always "send your subscriptions".
                subscription_changed=outdated or data.heartbeat_fingerprint == 0,
            )
        )

    def _consumer(
        self, peer: Peer, request: Command, data: HeartbeatData, consumer: ConsumerData
    ) -> bool:
        """One consumer entry; whether the broker wants the client's subscriptions anew."""
        group = consumer.group_name
        config = self._groups.find_or_create(group, self._clock.time_ms())
        # If the group may not be created, RocketMQ answers success and does nothing (B-40).
        if config is None:
            self._refused(group, data.client_id)
            return False
        # Created before anything fails, as 5.x does: the first send-back then finds its topic
        # (B-21).
        self._topics.ensure_retry_topic(
            group,
            config.retry_queue_nums,
            now_ms=self._clock.time_ms(),
            order=any(self._topics.is_ordered(s.topic) for s in consumer.subscription_data_set),
            unit_mode=consumer.unit_mode,
        )
        outdated = False
        now = self._clock.monotonic()
        # A short heartbeat: with the same fingerprint the broker has the subscriptions already
        # (B-29).
        if data.heartbeat_fingerprint and data.without_sub:
            outcome, outdated = self._consumers.heartbeat_without_subscriptions(
                consumer,
                peer,
                data.client_id,
                language=request.language,
                version=request.version,
                now=now,
                fingerprint=data.heartbeat_fingerprint,
            )
        else:
            outcome = self._consumers.heartbeat(
                consumer,
                peer,
                data.client_id,
                language=request.language,
                version=request.version,
                now=now,
                fingerprint=data.heartbeat_fingerprint,
            )
        self._tell_of(outcome, group, data.client_id, peer)
        return outdated

    def _refused(self, group: str, client_id: str) -> None:
        """Say what RocketMQ leaves unsaid: it answers success, and nothing is consumed (B-40)."""
        reason = self._groups.why_not_made(group)
        log.warning(
            "heartbeat.skipped", group=group[:_LOGGED_CHARS], client_id=client_id, reason=reason,
            advice="its members get no message and no error; choose another name, or make the "
            "group with `mqadmin updateSubGroup`",
        )  # fmt: skip
        if self._events.is_on:
            self._events.emit(
                MemberRefused(
                    *self._events.stamp(),
                    group=group[:_LOGGED_CHARS],
                    client_id=client_id,
                    broker=self._broker,
                    reason=reason,
                )
            )

    def _tell_of(self, outcome: HeartbeatOutcome, group: str, client_id: str, peer: Peer) -> None:
        if outcome.duplicate_client:
            log.warning(
                "client.duplicated", group=group, client_id=client_id, peer=peer.address,
                advice="two connections with one client id get each other's queues; "
                "give each instance a name of its own",
            )  # fmt: skip
        if outcome.disagrees:
            log.warning(
                "subscription.disagrees", group=group, client_id=client_id, peer=peer.address,
                added=outcome.topics_added, removed=outcome.topics_removed,
                changed=outcome.expressions_changed,
                advice="all members of a group must subscribe to the same topics and tags",
            )  # fmt: skip
        # After a new member or topic all members rebalance, the new one included (B-24).
        if outcome.changed:
            info = self._consumers.get(group)
            if info is not None:
                log.info("consumer.changed", group=group, members=len(info.members))
                self._notices.heartbeat(info)

    # -- leaving --------------------------------------------------------------------------------

    @handles(RequestCode.UNREGISTER_CLIENT)
    def unregister(self, peer: Peer, request: Command) -> Reply:
        """A client leaves its groups; the other members are notified (B-25)."""
        header = request.header(UnregisterClientRequestHeader)
        if header.producer_group is not None:
            self._producers.unregister(header.producer_group, peer)
        if header.consumer_group is not None:
            info = self._consumers.unregister(header.consumer_group, peer)
            if info is not None:
                log.info("consumer.left", group=info.group, client_id=header.client_id)
                self._notices.unregistered(info)
            # RocketMQ reads the group's settings here, which makes an unknown group (B-25). Last:
            # where there are too many groups this is refused, and the client has left all the same.
            self._groups.find_or_create(header.consumer_group, self._clock.time_ms())
        return request.reply()

    def peer_closed(self, peer: Peer) -> None:
        """A connection ended: its client is removed from all groups at once (B-26)."""
        # Producers too: no transaction may be checked over a closed connection (B-30).
        self._producers.channel_closed(peer)
        lost = self._consumers.channel_closed(peer)
        # Log some of the groups only: a client with a thousand of them would fill the log.
        for info in lost[:_LOGGED_GROUPS]:
            log.info("consumer.lost", group=info.group, peer=peer.address)
        if len(lost) > _LOGGED_GROUPS:
            log.info("consumer.lost", more_groups=len(lost) - _LOGGED_GROUPS, peer=peer.address)
        for info in lost:
            self._notices.closed(info)
