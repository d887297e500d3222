"""Queue locks, assembled."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.locks.lock_processor import LockProcessor
from pocketmq.broker.locks.queue_locks import RebalanceLockManager
from pocketmq.broker.subject import Periodically, Subject
from pocketmq.runtime.periodic import PeriodicService

EXPIRE_S = 10.0
"""Locks that ran out are forgotten this often; they end by themselves when they are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locks(Subject):
    """Who holds which queue."""

    table: RebalanceLockManager


def assemble_locks(core: BrokerCore) -> Locks:
    """In memory only, as RocketMQ's."""
    clock = core.clock
    table = RebalanceLockManager(core.config.lock_max_live_time_ms / 1000)

    def expire() -> None:
        table.expire(clock.monotonic())

    return Locks(
        table=table,
        processors=(LockProcessor(table, clock),),
        services=(Periodically(PeriodicService("expire queue locks", clock, EXPIRE_S, expire)),),
    )
