"""Builds the delays subject."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.delays.delay import DelayPlanner, delay_rewrite
from pocketmq.broker.delays.delay_processor import DelayProcessor
from pocketmq.broker.delays.delay_service import ScheduleMessageService
from pocketmq.broker.store import PutStatus
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Subject
from pocketmq.broker.tables.periodic_table import PeriodicTable
from pocketmq.protocol.bodies.offsets import DelayOffsetTable
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays(Subject):
    """How far each level is delivered."""

    planner: DelayPlanner
    schedule: ScheduleMessageService


def assemble_delays(core: BrokerCore, storing: Storing) -> Delays:
    """Rewrites messages with a delay level; listens to `message_arrived`."""
    store = core.store
    planner = DelayPlanner(store.config.delay_levels_ms())
    schedule = ScheduleMessageService(planner, store, core.clock, core.stats)
    storing.rewrites.add(delay_rewrite(planner.max_level))
    core.signals.message_arrived.connect(schedule.arrived, SCHEDULE_TOPIC)

    async def copies_are_safe() -> bool:
        """A saved offset must not say "delivered" before the copies are on the disk (B-94)."""
        delivered = planner.delivered()
        status = await store.flush()
        if status is PutStatus.PUT_OK:
            planner.made_safe(delivered)
            return True
        log.warning("table.save_put_off", table="delayOffset.json", log_flush=status.name)
        return False

    table = PeriodicTable(
        core.table_file("delayOffset.json", DelayOffsetTable, planner.load, planner.wrapper),
        planner.unsaved,
        core.clock,
        core.config.flush_delay_offset_interval_ms / 1000,
        first=copies_are_safe,
    )
    return Delays(
        planner=planner,
        schedule=schedule,
        processors=(DelayProcessor(planner, storing.puts),),
        services=(table, core.role.while_leading(schedule)),
    )
