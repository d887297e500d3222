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
            lambda work: _longest_wait_s(core.config, work),
            lambda: core.store.config.os_page_cache_busy_timeout_ms / 1000,
            config.transient_store_pool_size * store_config.mapped_file_size_commit_log
            if config.transient_store_pool_enable
            else None,
        )
    )


def _longest_wait_s(config: BrokerConfig, work: Work) -> float | None:
    """How long a request may wait; None: for ever."""
    if not config.broker_fast_failure_enable:
        return None
    match work:
        case Work.SEND:
            return config.wait_time_mills_in_send_queue / 1000
        case Work.PULL:
            return config.wait_time_mills_in_pull_queue / 1000
        case Work.HEARTBEAT:
            return config.wait_time_mills_in_heartbeat_queue / 1000
        case Work.ADMIN:
            return config.wait_time_mills_in_admin_broker_queue / 1000
