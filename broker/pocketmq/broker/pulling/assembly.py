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
from pocketmq.broker.pulling.offset_moved_events import OffsetMovedEvents
from pocketmq.broker.pulling.pull_checks import HeldPull, PullChecks, SlaveReads
from pocketmq.broker.pulling.pull_processor import PullProcessor, PullReader
from pocketmq.broker.pulling.pull_reports import PullReports
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Periodically, Subject
from pocketmq.broker.topics.assembly import Topics
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
    # By default 5.x notes offsets of broadcasting members, and 4.9 does not (B-36).
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
        # Only 4.9 stores a message about each offset that it moves (B-65).
        moved=OffsetMovedEvents(storing.puts, core.address, clock, config.name)
        if profile.write_offset_moved_event
        else None,
    )
    reader = PullReader(
        core.store.reads,
        PullChecks(
            topics.configs,
            groups.configs,
            groups.consumers,
            filters.message_filters,
            broker_name=config.name,
            options=core.config_now,
            invalid_parameter_code=profile.invalid_parameter_code,
            tells_who_forbids=profile.pulls_tell_sys_flags,
        ),
        offsets.table,
        core.stats,
        clock,
        SlaveReads(
            role=core.role,
            options=core.config_now,
            master_is_known=lambda: (
                core.role.master_is_known
                # Clients that have not heard of it yet would ask again and again.
                and clock.monotonic() >= core.role.acted_until + ROUTE_REFRESH_S
            ),
            refuses=profile.slave_rejects_sends,
            slaves_take_offsets=profile.slaves_take_pulled_offsets,
        ),
        reports=reports,
        broadcasts=broadcasts if note_broadcasts else None,
        tells_sys_flags=profile.pulls_tell_sys_flags,
    )

    held = HeldRequests("check held pulls", core, reader.again, reports.woken)
    processor = PullProcessor(reader, held, overload.guard, clock, core.config_now)
    return Pulling(
        held=held.table,
        processors=(processor,),
        # What the scan commits is saved with the other offsets, which end after it.
        services=(held, Periodically(scans, final_run=True)),
    )
