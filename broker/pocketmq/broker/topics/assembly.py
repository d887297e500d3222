"""Builds the topics subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.attributes import topic_attributes
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.subject import Subject
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.broker.topics.announcements import Announcements
from pocketmq.broker.topics.topic_configs import TopicConfigManager, TopicRules
from pocketmq.broker.topics.topic_processor import TopicProcessor
from pocketmq.protocol.bodies.topics import TopicConfigSerializeWrapper


@dataclass(frozen=True, slots=True, kw_only=True)
class Topics(Subject):
    """What other subjects use of the topics."""

    configs: TopicConfigManager
    saved: SavedTable
    """`topics.json`: an answer that needs a new topic waits for it."""
    announcements: Announcements
    """Changes that the name servers have not been told."""


def assemble_topics(core: BrokerCore) -> Topics:
    """Emits `topic_changed` and `topic_deleted`."""
    config, signals = core.config, core.signals
    configs = TopicConfigManager(
        config.name,
        config.cluster_name,
        signals.topic_changed,
        TopicRules(
            # A function, because tools may change the option.
            auto_create=lambda: core.config.auto_create_topic_enable,
            default_queue_nums=config.default_topic_queue_nums,
            broker_topic_enable=config.broker_topic_enable,
            cluster_topic_enable=config.cluster_topic_enable,
            trace_topic_enable=config.trace_topic_enable,
            delay_levels=len(core.store.config.delay_levels_ms()) - 1,
            modern=core.profile.broker.system_topics_of_5x,
            revive_queue_num=config.revive_queue_num,
            rocksdb=core.profile.broker.system_topics_of_rocksdb,
            permission_replaces=core.profile.broker.permission_replaces_topics,
            order_table_is_whole=core.profile.broker.order_table_is_whole,
            retry_topics_follow_order=core.profile.broker.retry_topics_follow_order,
        ),
        budget=core.budget,
    )
    announcements = Announcements(wanted=bool(config.nameservers))
    file = core.table_file(
        "topics.json", TopicConfigSerializeWrapper, configs.load, configs.wrapper
    )
    saved = SavedTable("topics", file.save, core.clock, file.load)
    signals.topic_changed.connect(saved.changed)
    signals.topic_deleted.connect(core.store.delete_topic)

    def announce(topic: str) -> None:
        # A deleted topic has no configuration that could be announced.
        if configs.get(topic) is not None:
            announcements.note(topic)

    def role_changed() -> None:
        # Without controllers there is no epoch.
        if core.role.leads and core.role.epoch:
            configs.note_epoch(core.role.epoch, core.clock.time_ms())

    signals.topic_changed.connect(announce)
    signals.role_changed.connect(role_changed)  # before registration tells of it
    return Topics(
        configs=configs,
        saved=saved,
        announcements=announcements,
        tools=(
            TopicProcessor(
                configs,
                saved,
                announcements,
                signals.topic_deleted,
                core.clock,
                topic_attributes(core.profile.broker),
                budget=core.budget,
                invalid_parameter_code=core.profile.broker.invalid_parameter_code,
                max_retry_topic_chars=core.profile.broker.retry_topic_max_chars,
                order_is_read=core.profile.broker.order_is_read,
                fields_of_5x=core.profile.broker.fields_of_5x,
            ),
        ),
        services=(saved,),
    )
