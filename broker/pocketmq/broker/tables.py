"""The broker's tables between two lives: read from `config/*.json` and written there (wire 6.7)."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from pocketmq.broker.delay import DelayPlanner
from pocketmq.broker.groups import SubscriptionGroupManager
from pocketmq.broker.json_files import JsonFile, JsonFileError
from pocketmq.broker.offsets import ConsumerOffsetManager
from pocketmq.broker.saved_tables import SavedTable
from pocketmq.broker.store import Disk, MessageStore
from pocketmq.broker.topics import TopicConfigManager
from pocketmq.protocol.bodies.groups import SubscriptionGroupWrapper
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pocketmq.protocol.bodies.topics import TopicConfigSerializeWrapper
from pocketmq.protocol.validation import SCHEDULE_TOPIC
from pocketmq.runtime.errors import DiskError

log = structlog.get_logger()

TableT = TypeVar("TableT")


class BrokerTables:
    """Topics and groups are written soon after each change, offsets when the clock says.

    Args:
        directory: `<store>/config`.
        disk: the seam to the file system.
        topics: `topics.json`.
        groups: `subscriptionGroup.json`.
        offsets: `consumerOffset.json`.
        planner: `delayOffset.json`.
    """

    def __init__(
        self,
        directory: Path,
        disk: Disk,
        topics: TopicConfigManager,
        groups: SubscriptionGroupManager,
        offsets: ConsumerOffsetManager,
        planner: DelayPlanner,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._planner = planner
        self._topics_json = JsonFile(directory / "topics.json", disk)
        self._groups_json = JsonFile(directory / "subscriptionGroup.json", disk)
        self._offsets_json = JsonFile(directory / "consumerOffset.json", disk)
        self._delays_json = JsonFile(directory / "delayOffset.json", disk)
        self.topics_file = SavedTable("topics", self._save_topics)
        self.groups_file = SavedTable("groups", self._save_groups)

    async def load(self) -> None:
        """Read everything that does not need the store; from now on changes are written.

        Raises:
            JsonFileError: a table is there, and it cannot be read nor can the one before it.
        """
        topics = await _read(self._topics_json, TopicConfigSerializeWrapper)
        if topics is not None:
            self._topics.load(topics)
        offsets = await _read(self._offsets_json, ConsumerOffsetTable)
        if offsets is not None:
            self._offsets.load(offsets)
        groups = await _read(self._groups_json, SubscriptionGroupWrapper)
        if groups is not None:
            self._groups.load(groups)
        self._topics.listeners.append(self.topics_file.changed)
        self._groups.listeners.append(self.groups_file.changed)

    async def fit_to(self, store: MessageStore) -> None:
        """Bring offsets within the queues that the store has recovered; read the delay offsets."""
        for topic, group, queue_id, offset in self._offsets.clamp(store.max_offset):
            log.warning(
                "offset.clamped", topic=topic, group=group, queue_id=queue_id, offset=offset
            )
        delays = await _read(self._delays_json, DelayOffsetTable)
        bounds = {
            level: (
                store.min_offset(SCHEDULE_TOPIC, level - 1),
                store.max_offset(SCHEDULE_TOPIC, level - 1),
            )
            for level in self._planner.levels
        }
        self._planner.load(delays or DelayOffsetTable(), bounds)

    async def save_offsets(self) -> None:
        """Write the committed offsets, if one has changed (B-31)."""
        if self._offsets.dirty:
            self._offsets.dirty = False
            self._offsets.dirty |= not await _write(self._offsets_json, self._offsets.wrapper())

    async def save_delay_offsets(self) -> None:
        """Write the progress of the delay levels, if one has moved (B-94)."""
        if self._planner.dirty:
            self._planner.dirty = False
            self._planner.dirty |= not await _write(self._delays_json, self._planner.wrapper())

    async def stop(self) -> None:
        """Return when topics and groups are written."""
        await self.topics_file.stop()
        await self.groups_file.stop()

    async def _save_topics(self) -> None:
        await self._topics_json.save(self._topics.wrapper())

    async def _save_groups(self) -> None:
        await self._groups_json.save(self._groups.wrapper())


async def _write(file: JsonFile, table: msgspec.Struct) -> bool:
    """Whether it was written; a full disk is logged, and the next period tries again."""
    try:
        await file.save(table)
    except DiskError as exc:
        log.error("table.save_failed", table=file.path.name, reason=str(exc))
        return False
    return True


async def _read(file: JsonFile, cls: type[TableT]) -> TableT | None:
    content = await file.load()
    if content is None:
        return None
    try:
        return msgspec.convert(content, cls, strict=False, str_keys=True)
    except msgspec.ValidationError as exc:
        raise JsonFileError(
            file.path, str(exc), advice="repair it, or remove it to start anew"
        ) from exc
