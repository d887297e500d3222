"""Heartbeats and what follows from them: 34, 35, 38, 40, 46, 203, 204 (B-20 to B-30)."""

from __future__ import annotations

import math
from typing import Final

import structlog

from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.groups.consumer_changes import ConsumerChanges
from pocketmq.broker.groups.consumers import ClientChannelInfo, ConsumerManager, HeartbeatOutcome
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.broker.pulling.pull_processor import Defer
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.clients import (
    CheckClientRequestBody,
    Connection,
    ConsumerConnection,
    ConsumerData,
    ConsumerList,
    HeartbeatData,
    ProducerConnection,
)
from pocketmq.protocol.body import decode_request_body, encode_body
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.errors import SubscriptionError
from pocketmq.protocol.headers.clients import (
    GetConsumerConnectionListRequestHeader,
    GetConsumerListRequestHeader,
    GetProducerConnectionListRequestHeader,
    HeartbeatResponseHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from pocketmq.protocol.subscription import TAG, SubscriptionData
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile import Profile

log = structlog.get_logger()

FIRST_BATCH_S: Final = 30.0
BATCH_PERIOD_S: Final = 15.0
"""When notifications leave that are not sent at once; a group is told once however often it changed
meanwhile (B-24)."""


class ClientProcessor:
    """Knows the clients, and tells consumers when their group changes.

    Args:
        consumers: consumer groups.
        producers: producer groups.
        groups: subscription groups; heartbeats create unknown ones.
        topics: heartbeats create `%RETRY%group`.
        changes: whom to tell.
        overload: refuses what has waited too long.
        clock: stamps heartbeats.
        profile: what a heartbeat is answered.
        defer: sends the notifications after the work at hand.
        real_time_notify: whether notifications leave at once or in batches (B-24).
        budget: what a heartbeat may hold.
    """

    def __init__(
        self,
        consumers: ConsumerManager,
        producers: ProducerManager,
        groups: SubscriptionGroupManager,
        topics: TopicConfigManager,
        changes: ConsumerChanges,
        overload: Overload,
        clock: Clock,
        profile: Profile,
        defer: Defer,
        *,
        real_time_notify: bool = True,
        budget: Budget = DEFAULT_BUDGET,
    ) -> None:
        self._budget = budget
        self._consumers = consumers
        self._producers = producers
        self._groups = groups
        self._topics = topics
        self._changes = changes
        self._overload = overload
        self._clock = clock
        self._profile = profile
        self._defer = defer
        self._notifying = False
        self._first_batch_at = None if real_time_notify else clock.monotonic() + FIRST_BATCH_S

    # -- coming ---------------------------------------------------------------------------------

    @handles(RequestCode.HEART_BEAT)
    def heartbeat(self, peer: Peer, request: Command) -> Reply:
        """Register all groups of a client (B-21)."""
        self._overload.check(Work.HEARTBEAT)
        data = decode_request_body(request, HeartbeatData)
        self._check(data)
        outdated = False
        for consumer in data.consumer_data_set:
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
        if not self._profile.heartbeat_v2:
            return request.reply()
        return request.reply(
            HeartbeatResponseHeader(
                support_heartbeat_v2=True,
                # Without a fingerprint (V1) the answer is always "send your subscriptions".
                subscription_changed=outdated or data.heartbeat_fingerprint == 0,
            )
        )

    def _check(self, data: HeartbeatData) -> None:
        """Pass a heartbeat that others can wait for."""
        budget, consumers = self._budget, data.consumer_data_set
        groups = len(consumers) + len(data.producer_data_set)
        budget.check("groups_per_heartbeat", groups, "groups of the heartbeat")
        wanted = [each.subscription_data_set for each in consumers]
        budget.check(
            "subscriptions_per_heartbeat",
            sum(map(len, wanted)),
            "subscriptions of the heartbeat",
        )
        longest = max((len(data.sub_string) for each in wanted for data in each), default=0)
        budget.check(
            "subscription_chars",
            longest,
            "characters of a subscription",
            advice="subscribe to fewer tags",
        )

    def _consumer(
        self, peer: Peer, request: Command, data: HeartbeatData, consumer: ConsumerData
    ) -> bool:
        """One consumer entry; whether the broker wants the client's subscriptions anew."""
        group = consumer.group_name
        config = self._groups.find_or_create(group, self._clock.time_ms())
        if config is None:
            log.warning("heartbeat.skipped", group=group, client_id=data.client_id)
            return False
        self._topics.ensure_retry_topic(
            group,
            config.retry_queue_nums,
            now_ms=self._clock.time_ms(),
            order=any(self._topics.is_ordered(s.topic) for s in consumer.subscription_data_set),
            unit_mode=consumer.unit_mode,
        )
        outdated = False
        now = self._clock.monotonic()
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
        if outcome.changed:
            info = self._consumers.get(group)
            if info is not None:
                log.info("consumer.changed", group=group, members=len(info.members))
                if self._changes.note_heartbeat(info):
                    self._notify_soon()

    # -- leaving --------------------------------------------------------------------------------

    @handles(RequestCode.UNREGISTER_CLIENT)
    def unregister(self, peer: Peer, request: Command) -> Reply:
        """A client leaves its groups; the others hear of it (B-25)."""
        header = request.header(UnregisterClientRequestHeader)
        if header.producer_group is not None:
            self._producers.unregister(header.producer_group, peer)
        if header.consumer_group is not None:
            info = self._consumers.unregister(header.consumer_group, peer)
            if info is not None:
                log.info("consumer.left", group=info.group, client_id=header.client_id)
                if self._changes.note_unregistered(info):
                    self._notify_soon()
        return request.reply()

    def peer_closed(self, peer: Peer) -> None:
        """A connection ended: its client is gone from all groups at once (B-26)."""
        self._producers.channel_closed(peer)
        for info in self._consumers.channel_closed(peer):
            log.info("consumer.lost", group=info.group, peer=peer.address)
            if self._changes.note_closed(info):
                self._notify_soon()

    def expire_silent(self) -> None:
        """Forget clients that sent no heartbeat for 120 s; nobody is told (B-27)."""
        now = self._clock.monotonic()
        silent: dict[Peer, ClientChannelInfo] = {
            info.channel: info
            for info in [*self._consumers.expire(now), *self._producers.expire(now)]
        }
        for peer, info in silent.items():
            log.warning(
                "client.expired", client_id=info.client_id, peer=peer.address,
                silent_s=round(now - info.last_update_at, 1),
            )  # fmt: skip
            peer.close()

    # -- notifying ------------------------------------------------------------------------------

    def _notify_soon(self) -> None:
        if self._notifying:
            return
        self._notifying = True
        if self._first_batch_at is None:
            self._defer(self._notify)
            return
        late_s = self._clock.monotonic() - self._first_batch_at
        batches = 0 if late_s <= 0 else math.ceil(late_s / BATCH_PERIOD_S)
        self._clock.call_at(self._first_batch_at + batches * BATCH_PERIOD_S, self._notify)

    def _notify(self) -> None:
        self._notifying = False
        for group in self._changes.take():
            info = self._consumers.get(group)
            if info is None:
                continue
            header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group)
            for channel in info.members:
                channel.oneway(header)

    # -- questions ------------------------------------------------------------------------------

    @handles(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    def consumer_list(self, _peer: Peer, request: Command) -> Reply:
        """All client ids of a group on this broker (B-28)."""
        group = request.header(GetConsumerListRequestHeader).consumer_group
        info = self._consumers.get(group)
        if info is None:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}"
            )
        encoding = int(request.encoding)
        body = info.id_lists.get(encoding)
        if body is None:
            # After a change every member asks; the list is encoded once for all of them.
            body = encode_body(ConsumerList(consumer_id_list=info.client_ids()), request.encoding)
            info.id_lists[encoding] = body
        return request.reply(body=body)

    @handles(RequestCode.CHECK_CLIENT_CONFIG)
    def check_client(self, _peer: Peer, request: Command) -> Reply:
        """Whether a subscription can be used here (46)."""
        body = decode_request_body(request, CheckClientRequestBody)
        data = body.subscription_data
        if data is None or data.expression_type == TAG:
            return request.reply()
        try:
            SubscriptionData.parse(
                data.topic, data.sub_string, data.sub_version, expression_type=data.expression_type
            )
        except SubscriptionError as exc:
            raise RequestRefusedError(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(exc)) from exc
        raise RequestRefusedError(
            ResponseCode.SYSTEM_ERROR,
            f"this broker does not filter by {data.expression_type}; subscribe by tags",
        )

    @handles(RequestCode.GET_CONSUMER_CONNECTION_LIST)
    def consumer_connections(self, _peer: Peer, request: Command) -> Reply:
        """Who consumes in a group, and what (203)."""
        group = request.header(GetConsumerConnectionListRequestHeader).consumer_group
        info = self._consumers.get(group)
        if info is None:
            raise RequestRefusedError(
                ResponseCode.CONSUMER_NOT_ONLINE, f"no member of group {group} is connected"
            )
        body = ConsumerConnection(
            connection_set=[_connection(member) for member in info.members.values()],
            subscription_table=dict(info.subscriptions),
            consume_type=info.consume_type,
            message_model=info.message_model,
            consume_from_where=info.consume_from_where,
        )
        return request.reply(body=encode_body(body, request.encoding))

    @handles(RequestCode.GET_PRODUCER_CONNECTION_LIST)
    def producer_connections(self, _peer: Peer, request: Command) -> Reply:
        """Who produces in a group (204)."""
        group = request.header(GetProducerConnectionListRequestHeader).producer_group
        members = self._producers.members(group)
        if not members:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_ERROR, f"no member of producer group {group} is connected"
            )
        body = ProducerConnection(connection_set=[_connection(member) for member in members])
        return request.reply(body=encode_body(body, request.encoding))


def _connection(info: ClientChannelInfo) -> Connection:
    return Connection(
        client_id=info.client_id,
        client_addr=info.channel.address,
        language=LanguageCode(info.language).name,
        version=info.version,
    )
