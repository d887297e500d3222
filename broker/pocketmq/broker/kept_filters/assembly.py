"""Builds the part of the filters subject that keeps `consumerFilter.json`."""

from __future__ import annotations

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.filters.assembly import Filters
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.kept_filters.consumer_filters import ConsumerFilterFile, ConsumerFilters
from pocketmq.broker.subject import Periodically, Subject
from pocketmq.broker.tables.periodic_table import PeriodicTable
from pocketmq.runtime.periodic import PeriodicService

KEEP_S = 10.0
"""Interval at which the file is brought up to date (Q-30)."""


def assemble_kept_filters(core: BrokerCore, groups: Groups, filters: Filters) -> Subject:
    """`consumerFilter.json`; listens to `topic_deleted`."""
    kept, clock = ConsumerFilters(filters.sql92.understands), core.clock
    core.signals.topic_deleted.connect(kept.forget_topic)

    def look() -> None:
        kept.look(groups.consumers.groups.values(), clock.time_ms())

    def load(stored: ConsumerFilterFile) -> None:
        kept.load(stored, clock.time_ms())

    table = PeriodicTable(
        core.table_file("consumerFilter.json", ConsumerFilterFile, load, kept.wrapper),
        kept.unsaved,
        clock,
        KEEP_S,
    )
    return Subject(
        # What the last look finds is in the file: the table ends after it.
        services=(
            table,
            Periodically(PeriodicService("keep filters", clock, KEEP_S, look), final_run=True),
        )
    )
