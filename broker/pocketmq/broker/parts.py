"""What a broker is made of below its requests: the store, the tables, and who is connected."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pocketmq.broker.admin.stats import BrokerStats
from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.delays.delay import DelayPlanner
from pocketmq.broker.groups.consumers import ConsumerManager
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.locks.queue_locks import RebalanceLockManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.broker.pulling.long_polling import PullRequestHoldTable
from pocketmq.broker.store import Disk, MessageStore, StoreConfig
from pocketmq.broker.store.rooted_disk import rooted
from pocketmq.broker.tables.tables import BrokerTables
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.budget import DEFAULT_BUDGET, Budget
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.profile import Profile


class BrokerParts:
    """Made once by `Broker`, and shared by its processors and services.

    Args:
        config: Its options.
        clock: Every timer and timestamp.
        profile: 4.9 or 5.x rules where they differ.
        store_config: The store's options; its directory is always `config.data`.
        disk: Where the store and the tables lie.
        budget: What peers may cost.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        profile: Profile,
        store_config: StoreConfig,
        disk: Disk,
        budget: Budget = DEFAULT_BUDGET,
    ) -> None:
        self.budget = budget
        self.config = config
        self.clock = clock
        self.profile = profile
        self.root = Path(os.path.abspath(config.data.expanduser()))
        self.disk = disk = rooted(disk, str(self.root))
        store_config = replace(store_config, store_path_root_dir=str(self.root))
        delays_ms = store_config.delay_levels_ms()
        levels = len(delays_ms) - 1

        self.store = MessageStore(store_config, disk, clock, profile)
        self.topics = TopicConfigManager(
            config.name,
            config.cluster_name,
            auto_create=config.auto_create_topic_enable,
            default_queue_nums=config.default_topic_queue_nums,
            broker_topic_enable=config.broker_topic_enable,
            cluster_topic_enable=config.cluster_topic_enable,
            trace_topic_enable=config.trace_topic_enable,
            delay_levels=levels,
            modern=profile.system_topics_of_5x,
            budget=budget,
        )
        self.groups = SubscriptionGroupManager(
            auto_create=config.auto_create_subscription_group,
            max_name_chars=profile.group_name_max_chars_broker,
            budget=budget,
        )
        expiry_s = config.channel_expired_timeout_ms / 1000
        self.consumers = ConsumerManager(expiry_s=expiry_s)
        self.producers = ProducerManager(expiry_s=expiry_s)
        self.offsets = ConsumerOffsetManager()
        self.locks = RebalanceLockManager(config.lock_max_live_time_ms / 1000)
        self.held = PullRequestHoldTable(budget)
        self.planner = DelayPlanner(delays_ms)
        self.stats = BrokerStats()
        self.overload = Overload(
            clock.monotonic,
            defer,
            _longest_waits(config),
            store_config.os_page_cache_busy_timeout_ms / 1000,
            config.transient_store_pool_size * store_config.mapped_file_size_commit_log
            if config.transient_store_pool_enable
            else None,
        )
        self.tables = BrokerTables(
            self.root / "config", disk, self.topics, self.groups, self.offsets, self.planner
        )

    @property
    def ip(self) -> str:
        """What clients, name servers and message ids are told."""
        return self.config.broker_ip1 or self.config.host


def defer(callback: Callable[[], None]) -> None:
    """Call it after the work at hand, in the next turn of the loop."""
    asyncio.get_running_loop().call_soon(callback)


def _longest_waits(config: BrokerConfig) -> dict[Work, float]:
    if not config.broker_fast_failure_enable:
        return {}
    return {
        Work.SEND: config.wait_time_mills_in_send_queue / 1000,
        Work.PULL: config.wait_time_mills_in_pull_queue / 1000,
        Work.HEARTBEAT: config.wait_time_mills_in_heartbeat_queue / 1000,
        Work.ADMIN: config.wait_time_mills_in_admin_broker_queue / 1000,
    }
