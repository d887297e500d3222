"""Figures for tools, assembled."""

from __future__ import annotations

from pocketmq.broker.admin.progress_processor import ProgressProcessor
from pocketmq.broker.admin.runtime_processor import RuntimeProcessor
from pocketmq.broker.admin.settings_processor import SettingsProcessor
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.delays.assembly import Delays
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.offsets.assembly import Offsets
from pocketmq.broker.subject import Subject
from pocketmq.broker.topics.assembly import Topics


def assemble_admin(
    core: BrokerCore, topics: Topics, groups: Groups, offsets: Offsets, delays: Delays
) -> Subject:
    """Reads all, changes nothing."""
    return Subject(
        tools=(
            ProgressProcessor(
                core.store,
                topics.configs,
                offsets.table,
                groups.consumers,
                broker_name=core.config.name,
            ),
            SettingsProcessor(core.config, core.store.config),
            RuntimeProcessor(
                core.store,
                delays.planner,
                core.stats,
                core.clock,
                disk_ratio=lambda: core.disk.usage(core.store.root).used_ratio,
            ),
        )
    )
