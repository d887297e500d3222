"""The broker's tables between two lives: read from `config/*.json` and written there (wire 6.7)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar

import msgspec
import structlog

from pocketmq.broker.delays.delay import DelayPlanner
from pocketmq.broker.groups.subscription_groups import SubscriptionGroupManager
from pocketmq.broker.offsets.consumer_offsets import ConsumerOffsetManager
from pocketmq.broker.store import Disk, MessageStore, PutStatus
from pocketmq.broker.tables.json_files import JsonFile, JsonFileError
from pocketmq.broker.tables.saved_tables import SavedTable
from pocketmq.broker.topics.topic_configs import TopicConfigManager
from pocketmq.protocol.bodies.groups import SubscriptionGroupWrapper
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pocketmq.protocol.bodies.topics import TopicConfigSerializeWrapper
from pocketmq.protocol.validation import SCHEDULE_TOPIC
from pocketmq.runtime.errors import DiskError
from pocketmq.runtime.periodic import AT_REST

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

    async def save_offsets(self) -> float | None:
        """Write the committed offsets, if one has changed (B-31); what `PeriodicService` wants."""
        return await _save(self._offsets_json, self._offsets)

    async def save_delay_offsets(self, store: MessageStore) -> float | None:
        """Write the progress of the delay levels, if one has moved (B-94).

        The log is synced first: a delivery must not be on the disk before its copies are, or a
        power cut takes messages that were acknowledged long ago.
        """

        async def copies_are_safe() -> bool:
            delivered = self._planner.delivered()
            status = await store.flush()
            if status is PutStatus.PUT_OK:
                self._planner.made_safe(delivered)
                return True
            log.warning("table.save_put_off", table="delayOffset.json", log_flush=status.name)
            return False

        return await _save(self._delays_json, self._planner, copies_are_safe)

    async def stop(self) -> None:
        """Return when topics and groups are written."""
        await self.topics_file.stop()
        await self.groups_file.stop()

    async def _save_topics(self) -> None:
        await self._topics_json.save(self._topics.wrapper())

    async def _save_groups(self) -> None:
        await self._groups_json.save(self._groups.wrapper())


class _Offsets(Protocol):
    """What is written periodically."""

    dirty: bool

    def wrapper(self) -> msgspec.Struct:
        """The table as it is stored."""


async def _nothing_first() -> bool:
    return True


async def _save(
    file: JsonFile, table: _Offsets, first: Callable[[], Awaitable[bool]] = _nothing_first
) -> float | None:
    """Write a dirty table; a full disk is logged, and the next period tries again.

    Args:
        file: where it is kept.
        table: what is written.
        first: has what the table depends on on the disk; False puts the save off.

    Returns:
        AT_REST when every change is in the file, None when another period has to come.
    """
    if table.dirty:
        table.dirty = False  # before the first await: a change during the write is in the next one
        try:
            if await first():
                await file.save(table.wrapper())
            else:
                table.dirty = True
        except DiskError as exc:
            log.error("table.save_failed", table=file.path.name, reason=str(exc))
            table.dirty = True
    return None if table.dirty else AT_REST


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
