"""Builds the locks subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.locks.lock_processor import LockProcessor
from pocketmq.broker.locks.queue_locks import RebalanceLockManager
from pocketmq.broker.subject import Periodically, Subject
from pocketmq.runtime.periodic import PeriodicService

EXPIRE_S = 10.0
"""Interval at which expired locks are removed to save memory; an expired lock never counts."""

IDLE_S = 60.0
"""The same while there is no lock at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks(Subject):
    """The queue locks."""

    table: RebalanceLockManager


def assemble_locks(core: BrokerCore) -> Locks:
    """In memory only, as RocketMQ's."""
    clock = core.clock
    table = RebalanceLockManager(core.config.lock_max_live_time_ms / 1000)

    def expire() -> float | None:
        table.expire(clock.monotonic())
        return None if table.count else IDLE_S

    return Locks(
        table=table,
        processors=(
            LockProcessor(table, clock, core.budget, events=core.events, broker=core.config.name),
        ),
        services=(Periodically(PeriodicService("expire queue locks", clock, EXPIRE_S, expire)),),
    )
