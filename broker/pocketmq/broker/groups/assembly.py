"""Builds the groups subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.attributes import group_attributes
from pocketmq.broker.core import BrokerCore, defer
from pocketmq.broker.filters.assembly import Filters
from pocketmq.broker.groups.client_processor import ClientProcessor
from pocketmq.broker.groups.consumer_changes import ConsumerChanges
from pocketmq.broker.groups.consumer_notices import ConsumerNotices
from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.groups.group_processor import GroupProcessor
from pocketmq.broker.groups.heartbeat_limits import HeartbeatLimits
from pocketmq.broker.groups.member_processor import MemberProcessor
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.groups.relay_processor import RelayProcessor
from pocketmq.broker.groups.silent_clients import SilentClients
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.overload.assembly import OverloadGuard
from pocketmq.broker.subject import Subject
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.broker.topics.assembly import Topics
from pocketmq.protocol.bodies.groups import SubscriptionGroupWrapper


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups(Subject):
    """What other subjects use of the groups."""

    configs: SubscriptionGroupManager
    consumers: ConsumerManager
    producers: ProducerManager
    silent: SilentClients


def assemble_groups(
    core: BrokerCore, topics: Topics, filters: Filters, overload: OverloadGuard
) -> Groups:
    """Emits `group_changed` and `group_deleted`; listens to `channel_closed`."""
    config, profile, clock, signals = core.config, core.profile.broker, core.clock, core.signals
    configs = SubscriptionGroupManager(
        signals.group_changed,
        auto_create=lambda: core.config.auto_create_subscription_group,
        max_name_chars=profile.group_name_max_chars,
        has_retry_policy=profile.groups_have_retry_policy,
        budget=core.budget,
    )
    expiry_s = config.channel_expired_timeout_ms / 1000
    consumers = ConsumerManager(expiry_s=expiry_s, events=core.events, broker=config.name)
    producers = ProducerManager(expiry_s=expiry_s)
    file = core.table_file(
        "subscriptionGroup.json", SubscriptionGroupWrapper, configs.load, configs.wrapper
    )
    saved = SavedTable("groups", file.save, clock, file.load)
    signals.group_changed.connect(saved.changed)
    # Changes are collected and sent in the loop's next turn, so that a hundred consumers cause one
    # round (B-24).
    notices = ConsumerNotices(
        ConsumerChanges(
            configs,
            enabled=config.notify_consumer_ids_changed_enable,
            notify_broadcast_groups=profile.notify_broadcast_groups,
        ),
        consumers,
        clock,
        defer,
        at_once=config.real_time_notify_consumer_change,
        events=core.events,
        broker=config.name,
    )
    clients = ClientProcessor(
        consumers,
        producers,
        configs,
        topics.configs,
        notices,
        HeartbeatLimits(overload.guard, core.budget),
        clock,
        profile,
        events=core.events,
        broker=config.name,
    )
    signals.channel_closed.connect(clients.peer_closed)
    silent = SilentClients(consumers, producers, clock, events=core.events, broker=config.name)
    return Groups(
        configs=configs,
        consumers=consumers,
        producers=producers,
        silent=silent,
        processors=(
            clients,
            MemberProcessor(consumers, producers, filters.message_filters, clock),
        ),
        tools=(
            RelayProcessor(consumers, core, topics.configs, configs),
            GroupProcessor(
                configs,
                saved,
                signals.group_deleted,
                clock,
                group_attributes(profile),
                budget=core.budget,
                invalid_parameter_code=profile.invalid_parameter_code,
                are_names_checked=profile.created_groups_are_checked,
                fields_of_5x=profile.fields_of_5x,
            ),
        ),
        services=(saved, silent),
    )
