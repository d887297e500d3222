"""Builds the offsets subject."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.groups.assembly import Groups
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.offsets.group_care import GroupCare
from pocketmq.broker.offsets.offset_processor import OffsetProcessor
from pocketmq.broker.offsets.reset_processor import ResetProcessor
from pocketmq.broker.store import QueueReads
from pocketmq.broker.subject import Periodically, Service, Subject
from pocketmq.broker.tables.periodic_table import PeriodicTable
from pocketmq.broker.topics.assembly import Topics
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.protocol.messages.receipts import pop_retry_topic
from pocketmq.runtime.periodic import PeriodicService

log = structlog.get_logger()

CARE_S = 180.0
"""Interval of the search for groups that lag far behind (B-168)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets(Subject):
    """Progress of groups."""

    table: ConsumerOffsetManager
    start_offset: Callable[[str, int], int]
    """The offset at which a group without any offset begins in (topic, queue id)."""


def assemble_offsets(core: BrokerCore, topics: Topics, groups: Groups) -> Offsets:
    """Listens to `topic_deleted`, which it emits for pop retry topics, and to `group_deleted`."""
    config, profile, clock = core.config, core.profile.broker, core.clock
    reads = core.store.reads
    table = ConsumerOffsetManager(core.events, core.config.name)

    def group_deleted(group: str, with_offsets: bool) -> None:
        if with_offsets:
            table.forget_group(group)

    def topic_deleted(topic: str) -> None:
        """What waits in its pop retry topics would come again as a message of the topic (M-16)."""
        clears_retries = core.config.clear_retry_topic_when_delete_topic
        for group in table.groups_of(topic) if clears_retries else ():
            for v2 in (True, False):
                retry = pop_retry_topic(topic, group, v2=v2)
                if topics.configs.delete(retry, clock.time_ms()):
                    core.signals.topic_deleted.emit(retry)
        table.forget_topic(topic)

    # 4.9 keeps the offsets of a deleted topic.
    if profile.deleted_topics_take_offsets:
        core.signals.topic_deleted.connect(topic_deleted)
    core.signals.group_deleted.connect(group_deleted)
    processor = OffsetProcessor(
        table, reads, topics.configs, groups.configs, clock, profile, budget=core.budget
    )

    def server_side_reset() -> bool:
        wanted = core.config.use_server_side_reset_offset
        return profile.server_side_reset_offset if wanted is None else wanted

    def stop_behind_bytes() -> int | None:
        config = core.config
        stops = config.disable_consume_if_consumer_read_slowly
        return config.consumer_fallbehind_threshold if stops else None

    care = GroupCare(
        groups.configs,
        groups.consumers,
        table,
        reads,
        clock,
        stop_behind_bytes=stop_behind_bytes,
    )
    return Offsets(
        table=table,
        start_offset=processor.start_offset,
        processors=(processor,),
        tools=(
            ResetProcessor(
                table,
                reads,
                topics.configs,
                groups.configs,
                groups.consumers,
                broker_name=config.name,
                server_side=server_side_reset,
            ),
        ),
        services=(
            PeriodicTable(
                core.table_file(
                    "consumerOffset.json", ConsumerOffsetTable, table.load, table.wrapper
                ),
                table.unsaved,
                clock,
                config.flush_consumer_offset_interval_ms / 1000,
            ),
            # Starts when the table is loaded and the store is recovered.
            _Clamp(table, reads),
            Periodically(PeriodicService("look after groups", clock, CARE_S, care.run)),
        ),
    )


class _Clamp(Service):
    """Clamps offsets to the bounds of the recovered queues."""

    def __init__(self, table: ConsumerOffsetManager, reads: QueueReads) -> None:
        self._table = table
        self._reads = reads

    def recovered(self) -> None:
        for topic, group, queue_id, offset in self._table.clamp(self._reads.max_offset):
            log.warning(
                "offset.clamped", topic=topic, group=group, queue_id=queue_id, offset=offset
            )
