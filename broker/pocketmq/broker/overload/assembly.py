"""Builds the overload subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.core import BrokerCore, defer
from pocketmq.broker.overload.overload import Overload, Work
from pocketmq.broker.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class OverloadGuard(Subject):
    """The checks that refuse requests under overload."""

    guard: Overload


def assemble_overload(core: BrokerCore) -> OverloadGuard:
    """Needs nothing but the options."""
    config, store_config = core.config, core.store.config
    return OverloadGuard(
        guard=Overload(
            core.clock.monotonic,
            defer,
            _longest_waits(config),
            store_config.os_page_cache_busy_timeout_ms / 1000,
            config.transient_store_pool_size * store_config.mapped_file_size_commit_log
            if config.transient_store_pool_enable
            else None,
        )
    )


def _longest_waits(config: BrokerConfig) -> dict[Work, float]:
    if not config.broker_fast_failure_enable:
        return {}
    return {
        Work.SEND: config.wait_time_mills_in_send_queue / 1000,
        Work.PULL: config.wait_time_mills_in_pull_queue / 1000,
        Work.HEARTBEAT: config.wait_time_mills_in_heartbeat_queue / 1000,
        Work.ADMIN: config.wait_time_mills_in_admin_broker_queue / 1000,
    }
