"""The broker's topics: which exist, how many queues they have, who may use them (B-12 to B-16).

A new topic copies a template. Its queues exist on the broker that received the first message, and
on no other before that one receives a message too (B-15).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import msgspec

from pocketmq.broker.tables.table_copy import become
from pocketmq.protocol.bodies.topics import DataVersion, TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.budget import BudgetSource, default_budget
from pocketmq.protocol.messages.validation import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    CHECKPOINT_TOPIC,
    HALF_TOPIC,
    MEMBERS_TOPIC_PREFIX,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    REVIVE_TOPIC_PREFIX,
    ROCKSDB_HALF_TOPIC,
    ROCKSDB_OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
    TRANS_CHECK_MAX_TIME_TOPIC,
    dlq_topic,
    is_retry,
    is_system_topic,
    retry_topic,
)
from pocketmq.protocol.scalars import Perm, TopicSysFlag
from pocketmq.runtime.signals import Signal


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """Which system topics a broker makes."""

    auto_create: Callable[[], bool] = lambda: True
    """TBW102, after which unknown topics are made (B-12)."""
    default_queue_nums: int = 8
    """Queues of TBW102."""
    broker_topic_enable: bool = True
    """The broker's name is a template topic."""
    cluster_topic_enable: bool = True
    """The cluster's name is one."""
    trace_topic_enable: bool = False
    delay_levels: int = 18
    modern: bool = True
    """Also the topics of 5.x: pop, timers, transactions."""
    revive_queue_num: int = 8
    """Queues of the topic of pop's check points."""
    rocksdb: bool = False
    """Also those of half messages in RocksDB, which stay empty."""
    permission_replaces: bool = False
    """The broker's permission is registered in place of each topic's (B-5)."""
    order_table_is_whole: bool = False
    """What the order table of a name server lacks is not ordered (B-8)."""
    retry_topics_follow_order: bool = True
    """A retry topic is ordered while a topic of its group is (B-21)."""


class TopicConfigManager:
    """Topic name -> configuration, and the version of the whole (N-10).

    Every change bumps `data_version` and emits `changed`: the table is saved and registered.
    """

    def __init__(
        self,
        broker_name: str,
        cluster_name: str,
        changed: Signal[[str]] | None = None,
        rules: TopicRules | None = None,
        *,
        budget: BudgetSource = default_budget,
    ) -> None:
        rules = rules or TopicRules()
        self._budget = budget
        self.auto_create = rules.auto_create
        self._permission_replaces = rules.permission_replaces
        self._order_table_is_whole = rules.order_table_is_whole
        self._retry_topics_follow_order = rules.retry_topics_follow_order
        self.data_version = DataVersion()
        self.changed: Signal[[str]] = Signal() if changed is None else changed
        """(topic): created, changed or deleted."""
        self._table: dict[str, TopicConfig] = {}
        self.table: Mapping[str, TopicConfig] = self._table
        """All topics by name."""
        rw, rwx, inherit = Perm.RW, Perm.RWX, Perm.INHERIT
        system = [
            (SELF_TEST_TOPIC, 1, rw),
            (BENCHMARK_TOPIC, 1024, rw),
            # These templates exist in any case, as in RocketMQ; the options only permit sends to
            # them.
            (cluster_name, 16, rwx if rules.cluster_topic_enable else inherit),
            (broker_name, 1, rwx if rules.broker_topic_enable else inherit),
            (OFFSET_MOVED_TOPIC, 1, rw),
            (SCHEDULE_TOPIC, rules.delay_levels, rw),
            (f"{cluster_name}_REPLY_TOPIC", 1, rw),
        ]
        if rules.auto_create():
            system.append((AUTO_CREATE_TOPIC, rules.default_queue_nums, rwx))
        if rules.trace_topic_enable:
            system.append((TRACE_TOPIC, 1, rw))
        if rules.modern:
            system += [
                (REVIVE_TOPIC_PREFIX + cluster_name, rules.revive_queue_num, rw),
                (MEMBERS_TOPIC_PREFIX + broker_name, 1, inherit),
                (HALF_TOPIC, 1, rw),
                (OP_HALF_TOPIC, 1, rw),
                (TIMER_TOPIC, 1, rw),
            ]
        if rules.rocksdb:
            system += [(ROCKSDB_HALF_TOPIC, 1, rw), (ROCKSDB_OP_HALF_TOPIC, 1, rw)]
        for name, queues, perm in system:
            self._table[name] = _config(name, queues, perm)
        self.system_topics = frozenset(name for name, _, _ in system)
        """Topics that this broker made for itself."""
        of_5x = {CHECKPOINT_TOPIC} if rules.modern else set()
        made_later = {
            AUTO_CREATE_TOPIC, HALF_TOPIC, OP_HALF_TOPIC, TRACE_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC,
        }  # fmt: skip
        self.reserved_topics = self.system_topics | made_later | of_5x
        """And those that it would make: nobody else may."""

    # -- reading ------------------------------------------------------------------------------

    def get(self, topic: str) -> TopicConfig | None:
        """The topic's configuration, or None when it does not exist here."""
        return self._table.get(topic)

    def is_system(self, topic: str) -> bool:
        """Whether the topic is the broker's own and may not be deleted (E-70)."""
        return topic in self.system_topics or is_system_topic(topic)

    def is_ordered(self, topic: str) -> bool:
        """Whether the topic is marked as an order topic."""
        config = self._table.get(topic)
        return config is not None and config.order

    def wrapper(
        self, topics: Iterable[str] | None = None, *, permission: int = Perm.RW
    ) -> TopicConfigSerializeWrapper:
        """The table as it is registered: all of it, or some topics (B-5, B-6).

        Args:
            topics: names to include; unknown ones are left out. None means all.
            permission: the broker's own permission; what it lacks, every topic lacks. 4.9: if it
                lacks something, it stands in place of each topic's own.
        """
        if topics is None:
            chosen = dict(self._table)
        else:
            chosen = {name: self._table[name] for name in topics if name in self._table}
        if permission & Perm.RW != Perm.RW:
            chosen = {name: self._restricted(config, permission) for name, config in chosen.items()}
        return TopicConfigSerializeWrapper(
            data_version=self.data_version, topic_config_table=chosen
        )

    def _restricted(self, config: TopicConfig, permission: int) -> TopicConfig:
        if not self._permission_replaces:
            return msgspec.structs.replace(config, perm=config.perm & permission)
        return msgspec.structs.replace(config, perm=permission, order=False, topic_sys_flag=0)

    def note_new_permission(self, now_ms: int) -> None:
        """The broker's own permission changed: what name servers know is an old version (O-7)."""
        self._next_version(now_ms)

    def note_epoch(self, epoch: int, now_ms: int) -> None:
        """This broker is master of a new epoch: name servers prefer it to older ones (D-61)."""
        self.data_version = self.data_version.next_version(now_ms, epoch)

    # -- changing -----------------------------------------------------------------------------

    def load(self, stored: TopicConfigSerializeWrapper) -> None:
        """Take over what `topics.json` holds; what it does not name stays as made at boot."""
        self._table.update(stored.topic_config_table)
        self.data_version = stored.data_version

    def replace(self, master: TopicConfigSerializeWrapper) -> list[str]:
        """Become a copy of the master's table, its version included; the topics that changed."""
        changed = become(self._table, master.topic_config_table)
        self.data_version = master.data_version
        for name in changed:
            self.changed.emit(name)
        return changed

    def put(self, config: TopicConfig, now_ms: int) -> bool:
        """Create or replace a topic; False when nothing would change."""
        if self._table.get(config.topic_name) == config:
            return False
        self._table[config.topic_name] = config
        self._note_change(config.topic_name, now_ms)
        return True

    def create_for_send(
        self,
        topic: str,
        default_topic: str,
        client_queue_nums: int,
        *,
        now_ms: int,
        unit_mode: bool = False,
    ) -> TopicConfig | None:
        """The configuration of an unknown topic that a message came for, or None (B-12 to B-14).

        Args:
            topic: legal name that is not in the table.
            default_topic: the template that the producer names, normally TBW102.
            client_queue_nums: most queues the producer wants; negative counts as 0.
            now_ms: when.
            unit_mode: sets the topic's unit bit; of a retry topic, that of subscriptions.
        """
        sys_flag = 0
        if unit_mode:
            sys_flag = TopicSysFlag.UNIT_SUB if is_retry(topic) else TopicSysFlag.UNIT
        template = self._table.get(default_topic)
        if template is not None and default_topic == AUTO_CREATE_TOPIC and not self.auto_create():
            # A TBW102 from an older topics.json must not create topics when the option forbids it.
            template = None
        self._budget().check(
            "records",
            len(self._table) + 1,
            "topics of this broker",
            advice="create the topic with `pocketmq topic create`, delete old ones, or raise it",
        )
        if template is not None and Perm.is_inherited(template.perm):
            # At most as many queues as the template has, whatever the producer asks for (B-12).
            queues = max(0, min(client_queue_nums, template.write_queue_nums))
            config = TopicConfig(
                topic_name=topic,
                read_queue_nums=queues,
                write_queue_nums=queues,
                # The new topic is no template itself.
                perm=template.perm & ~Perm.INHERIT,
                topic_filter_type=template.topic_filter_type,
                topic_sys_flag=sys_flag,
            )
        # A retry topic needs no template: messages that are sent back must find it (B-14).
        elif is_retry(topic):
            config = _config(topic, 1, Perm.RW, sys_flag=sys_flag)
        else:
            return None
        self.put(config, now_ms)
        return config

    def ensure_retry_topic(
        self,
        group: str,
        queue_nums: int,
        *,
        now_ms: int,
        order: bool = False,
        unit_mode: bool = False,
    ) -> TopicConfig:
        """`%RETRY%group`, made if it is missing: by heartbeats and by send back (B-21, B-80).

        One that is there takes over whether it is ordered, and nothing else; in 4.9 not even that.
        """
        order = order and self._retry_topics_follow_order
        sys_flag = TopicSysFlag.UNIT_SUB if unit_mode else 0
        config = self._ensure(
            _config(retry_topic(group), queue_nums, Perm.RW, order=order, sys_flag=sys_flag), now_ms
        )
        # The group may have become an ordered one, or stopped being one (B-21).
        if self._retry_topics_follow_order and config.order != order:
            config = msgspec.structs.replace(config, order=order)
            self.put(config, now_ms)
        return config

    def ensure_dlq_topic(self, group: str, *, now_ms: int) -> TopicConfig:
        """`%DLQ%group` with its one queue, made if it is missing (B-83)."""
        return self._ensure(_config(dlq_topic(group), 1, Perm.RW), now_ms)

    def ensure_system_topic(self, topic: str, *, queue_nums: int, now_ms: int) -> TopicConfig:
        """A topic of the broker's own, made when it is first needed."""
        return self._ensure(_config(topic, queue_nums, Perm.RW), now_ms)

    def delete(self, topic: str, now_ms: int) -> bool:
        """Forget a topic; False when it does not exist."""
        if self._table.pop(topic, None) is None:
            return False
        self._note_change(topic, now_ms)
        return True

    def take_order_table(self, topics: Collection[str], now_ms: int) -> list[str]:
        """Mark the topics that a name server knows as ordered; those that changed (B-8).

        In 4.9 all others lose the mark.
        """
        changed = []
        for topic, config in list(self._table.items()):
            order = topic in topics or (config.order and not self._order_table_is_whole)
            if order != config.order:
                self.put(msgspec.structs.replace(config, order=order), now_ms)
                changed.append(topic)
        return changed

    def _ensure(self, config: TopicConfig, now_ms: int) -> TopicConfig:
        known = self._table.get(config.topic_name)
        if known is not None:
            return known
        self.put(config, now_ms)
        return config

    def _next_version(self, now_ms: int) -> None:
        version = self.data_version
        self.data_version = version.next_version(now_ms, version.state_version)

    def _note_change(self, topic: str, now_ms: int) -> None:
        self._next_version(now_ms)
        self.changed.emit(topic)


def _config(
    name: str, queues: int, perm: int, *, order: bool = False, sys_flag: int = 0
) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        order=order,
        topic_sys_flag=sys_flag,
    )
