"""Builds the pulling subject."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.filters.assembly import Filters
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.holding.held_requests import HeldRequests
from pocketmq.broker.holding.hold_table import HoldTable
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.overload.assembly import OverloadGuard
from pocketmq.broker.pulling.broadcast_offsets import BroadcastOffsets
from pocketmq.broker.pulling.held_pull import HeldPull
from pocketmq.broker.pulling.offset_moved import OffsetMovedEvents
from pocketmq.broker.pulling.pull_checks import PullChecks
from pocketmq.broker.pulling.pull_processor import PullProcessor
from pocketmq.broker.pulling.pull_reader import PullReader
from pocketmq.broker.pulling.pull_reports import PullReports
from pocketmq.broker.pulling.slave_reads import SlaveReads
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Periodically, Subject
from pocketmq.broker.topics.assembly import Topics
from pocketmq.protocol.dispatch import Reply
from pocketmq.runtime.periodic import AT_REST, PeriodicService

ROUTE_REFRESH_S = 30.0
"""Clients ask for routes so often (P-3)."""

BROADCAST_SCAN_S = 5.0
"""The smallest offsets of broadcasting groups are committed this often (B-36)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulling(Subject):
    """The pulls that wait."""

    held: HoldTable[HeldPull]


def assemble_pulling(
    core: BrokerCore,
    topics: Topics,
    groups: Groups,
    offsets: Offsets,
    filters: Filters,
    storing: Storing,
    overload: OverloadGuard,
) -> Pulling:
    """Listens to `message_arrived`, `topic_deleted` and `channel_closed`."""
    config, profile, clock = core.config, core.profile.broker, core.clock
    note_broadcasts = config.enable_broadcast_offset_store
    if note_broadcasts is None:
        note_broadcasts = profile.note_broadcast_offsets
    broadcasts = BroadcastOffsets(
        groups.consumers,
        offsets.table,
        offsets.start_offset,
        expire_s=config.broadcast_offset_expire_second,
        expire_max_s=config.broadcast_offset_expire_max_second,
    )
    core.signals.topic_deleted.connect(broadcasts.forget_topic)

    def commit_broadcast_offsets() -> float | None:
        broadcasts.scan(clock.monotonic(), clock.time_ms())
        return None if broadcasts else AT_REST

    scans = PeriodicService(
        "commit broadcast offsets", clock, BROADCAST_SCAN_S, commit_broadcast_offsets
    )
    broadcasts.began.connect(scans.resume)
    reports = PullReports(
        core.events,
        config.name,
        groups.consumers,
        moved=OffsetMovedEvents(storing.puts, core.address, clock, config.name)
        if profile.write_offset_moved_event
        else None,
    )
    reader = PullReader(
        core.store,
        PullChecks(
            topics.configs,
            groups.configs,
            groups.consumers,
            filters.message_filters,
            broker_name=config.name,
            broker_permission=lambda: core.config.broker_permission,
            invalid_parameter_code=profile.invalid_parameter_code,
            budget=core.budget,
        ),
        offsets.table,
        core.stats,
        clock,
        slave_reads=SlaveReads(
            leads=lambda: core.role.leads,
            enabled=lambda: core.config.slave_read_enable,
            master_is_known=lambda: (
                core.role.master_is_known
                # Clients that have not heard of it yet would ask again and again.
                and clock.monotonic() >= core.role.acted_until + ROUTE_REFRESH_S
            ),
            refuses=profile.slave_rejects_sends,
        ),
        reports=reports,
        broadcasts=broadcasts if note_broadcasts else None,
    )

    def pull_again(pull: HeldPull) -> Reply:
        return reader.read(pull.peer, pull.request, pull.header, None)

    held = HeldRequests("check held pulls", core, pull_again, reports.woken)

    def short_polling_ms() -> int | None:
        config = core.config
        return None if config.long_polling_enable else config.short_polling_time_ms

    processor = PullProcessor(
        reader,
        held,
        overload.guard,
        clock,
        short_polling_ms=short_polling_ms,
    )
    return Pulling(
        held=held.table,
        processors=(processor,),
        # What the scan commits is saved with the other offsets, which end after it.
        services=(held, Periodically(scans, final_run=True)),
    )
