"""Builds the admin subject: statistics and settings for tools."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.admin.day_totals import DayTotals
from pocketmq.broker.admin.group_views_processor import GroupViewsProcessor
from pocketmq.broker.admin.progress_processor import ProgressProcessor
from pocketmq.broker.admin.runtime_processor import RuntimeProcessor
from pocketmq.broker.admin.settings_processor import KeptOptions, SettingsProcessor
from pocketmq.broker.admin.shown_facts import decided, facts
from pocketmq.broker.admin.stats_processor import StatsProcessor
from pocketmq.broker.admin.upkeep_processor import UpkeepProcessor
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.delays.assembly import Delays
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.overload.assembly import OverloadGuard
from pocketmq.broker.replication.assembly import Replication
from pocketmq.broker.stats.traffic import MINUTE_PERIOD_MS
from pocketmq.broker.subject import Periodically, Subject
from pocketmq.broker.timers.assembly import Timers
from pocketmq.broker.topics.assembly import Topics
from pocketmq.operation.option_updates import options_writer
from pocketmq.runtime.files.durable_file import DurableFile
from pocketmq.runtime.files.text_files import OsTextFiles
from pocketmq.runtime.periodic import PeriodicService

SAMPLED_PER_TURN = 4_000
"""Counters, of topics and of groups in topics, that are sampled in one turn of the loop."""


def assemble_admin(
    core: BrokerCore,
    topics: Topics,
    groups: Groups,
    offsets: Offsets,
    delays: Delays,
    timers: Timers,
    overload: OverloadGuard,
    replication: Replication,
) -> Subject:
    """Samples the counters every 10 s; listens to `topic_deleted` and `group_deleted`."""
    stats, clock = core.stats, core.clock
    days = DayTotals(stats, clock.time_ms())

    def sample() -> float | None:
        now_ms = clock.time_ms()
        days.look(now_ms)
        is_more = stats.sample(now_ms, SAMPLED_PER_TURN)
        # One turn did not sample all counters: continue at once, not in 10 s.
        return 0.0 if is_more else None

    def group_deleted(group: str, _with_offsets: bool) -> None:
        stats.forget_group(group)

    core.signals.topic_deleted.connect(stats.forget_topic)
    core.signals.group_deleted.connect(group_deleted)
    given = core.config.broker_config_path
    # Changed settings go to the file that the broker was started with (O-7), else to one beside the
    # tables.
    file = (
        DurableFile(Path(core.store.root) / "config" / "broker.properties", core.disk)
        if given is None
        else DurableFile(given, OsTextFiles())
    )
    writer = options_writer(core.options, file)
    sampling = PeriodicService("stats.sample", clock, MINUTE_PERIOD_MS / 1000, sample)
    progress = ProgressProcessor(
        core.store.reads,
        topics.configs,
        offsets.table,
        groups.consumers,
        stats,
        broker_name=core.config.name,
        fields_of_5x=core.profile.broker.fields_of_5x,
    )
    return Subject(
        tools=(
            progress,
            GroupViewsProcessor(
                core, topics.configs, offsets.table, groups.consumers, groups.configs, progress
            ),
            SettingsProcessor(
                core.options,
                writer,
                clock,
                lambda: decided(core, replication.port.port),
                lambda: facts(core),
            ),
            RuntimeProcessor(core, delays.planner, timers, overload.guard, days),
            UpkeepProcessor(core.store),
            StatsProcessor(stats, core.config.cluster_name),
        ),
        services=(Periodically(sampling), KeptOptions(writer)),
    )
