"""The timers' files: read at start, written once a second in an order that survives a power cut.

    timer log synced -> slots written and synced -> checkpoint written and synced -> counts

So the checkpoint never promises what the other two do not hold (T-116). Slots are written as they
stood when the log's sync began: a record that came while it ran may not be on the disk, and a slot
that leads to a record which a power cut took is damage, and dropped with all that it holds. A
slot's delivery is noted in the checkpoint's page at once, so that a killed process repeats as
little as possible. Slots whose sync failed are written again and read back: a second sync alone
would succeed and prove nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import structlog

from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.disk.disk_worker import DiskWorker, InlineWorker, Job, run_on
from pocketmq.broker.store.disk.mapped_file import PAGE
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.tables.json_files import JsonFile
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.layout import (
    CHECKPOINT_SIZE,
    WHEEL_SIZE,
    Checkpoint,
    Slot,
    TimerMetrics,
)
from pocketmq.broker.timers.log import TimerLog
from pocketmq.broker.timers.wheel import TimerWheel, encode_slot
from pocketmq.runtime.files.durable_file import DamagedFileError

log = structlog.get_logger()

_STRETCH = 64 * 1024


class TimerFiles:
    """`timerwheel`, `timerlog/`, `config/timercheck` and `config/timermetrics` of one store.

    Args:
        disk: the seam to the file system.
        root: the store's directory.
        timer_log: written by the timers.
        wheel: likewise.
        counts: likewise.
    """

    def __init__(
        self, disk: Disk, root: str, timer_log: TimerLog, wheel: TimerWheel, counts: TimerCounts
    ) -> None:
        self.checkpoint = Checkpoint()
        """What the file says."""
        self._disk = disk
        self._log = timer_log
        self._wheel = wheel
        self._counts = counts
        self._root = root
        self._wheel_path = os.path.join(root, "timerwheel")
        self._check_path = os.path.join(root, "config", "timercheck")
        self._metrics = JsonFile(Path(root) / "config" / "timermetrics", disk)
        self._wheel_view: memoryview | None = None
        self._check_view: memoryview | None = None
        self._reserved: set[int] = set()
        """Pages of the wheel that have blocks."""
        self._is_wheel_doubtful = True
        """Whether the system may take pages for clean that a failed sync, perhaps of a process
        before this one, has not written."""
        self._new_names = {self._root, os.path.dirname(self._check_path)}
        """Directories with names that a power cut could take."""
        self._worker: DiskWorker = InlineWorker()

    # -- reading --------------------------------------------------------------------------------

    def load_checkpoint(self) -> bool:
        """Read the checkpoint; False when there is none."""
        content = self._disk.read_file(self._check_path)
        if content is None:
            return False
        self.checkpoint = Checkpoint.decode(content)
        return True

    def load_wheel(self, from_ms: int) -> None:
        """Read the slots from a time on.

        Raises:
            StoreFileError: the file has another length, so it is no wheel.
        """
        size = self._disk.file_size(self._wheel_path)
        if size is None:
            return
        if size == 0:  # a power cut came before its first sync: no checkpoint promises its slots
            self._disk.remove_file(self._wheel_path)
            return
        if size != WHEEL_SIZE:
            raise StoreFileError(
                self._wheel_path,
                f"the file must have {WHEEL_SIZE} bytes, but has {size}: it is not a timer wheel",
                position=size,
                advice=(
                    "restore the file, or remove it; without this file, the broker finds "
                    "waiting messages through the timer log"
                ),
            )
        view = self._map_wheel()
        self._wheel.load(view, self._stretches(), from_ms)

    async def load_counts(self) -> None:
        """Read the counts; broken ones begin anew, as nothing depends on them."""
        try:
            content = await self._metrics.load()
            if content is not None:
                self._counts.load(msgspec.convert(content, TimerMetrics, strict=False))
        except (msgspec.ValidationError, DamagedFileError) as exc:
            log.warning("timer_counts.unreadable", reason=str(exc))

    def _stretches(self) -> Iterator[tuple[int, int]]:
        # Most of the 38 MB file is holes: visit only the stretches with data.
        at = self._disk.next_data(self._wheel_path, 0)
        while at is not None and at < WHEEL_SIZE:
            start = at // _STRETCH * _STRETCH
            end = min(WHEEL_SIZE, start + _STRETCH)
            yield start, end
            at = self._disk.next_data(self._wheel_path, end)

    def _map_wheel(self) -> memoryview:
        if self._wheel_view is None:
            # Sparse: only slots that are used take up disk space.
            if self._disk.file_size(self._wheel_path) is None:
                self._disk.create_file(self._wheel_path, WHEEL_SIZE)
                self._new_names.add(self._root)
            self._wheel_view = self._disk.map_file(self._wheel_path, WHEEL_SIZE)
        return self._wheel_view

    # -- writing --------------------------------------------------------------------------------

    def start(self) -> None:
        """Have a worker sync from now on."""
        self._worker = self._disk.start_worker("timer-flush")

    async def flush(self, queue_offset: int) -> None:
        """Bring everything to the disk.

        Args:
            queue_offset: every message of the wheel topic below it is logged or delivered.

        Raises:
            DiskError: a sync failed; the checkpoint is unchanged, and the next flush begins anew.
                Or the counts could not be written; the next flush does it.
        """
        # Take both in one turn of the loop: later changes belong to the next flush (T-116).
        log_end, dirty = self._log.end, self._wheel.take_dirty()  # in one turn of the loop
        try:
            # The log first: a slot must not lead to a record that is not on the disk.
            await self._log.sync(self._on_worker)
            if dirty:
                await self._flush_wheel(dirty)
        except BaseException:
            # These slots are not written: the next flush takes them again.
            self._wheel.still_dirty(dirty)
            raise
        await self._sync_names(self._root)
        # After both: the check point must not promise what log and wheel lack.
        self.write_checkpoint(
            self.checkpoint._replace(
                flushed_position=log_end,
                queue_offset=queue_offset,
                master_queue_offset=queue_offset,
                version=self._counts.version,
            )
        )
        await self._on_worker(lambda: self._sync(self._check_path))
        await self._sync_names(os.path.dirname(self._check_path))
        # The counts last, because nothing depends on them (T-115).
        with self._counts.unsaved.taken() as has_changed:
            if has_changed:
                await self._metrics.save(self._counts.wrapper())

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Put it into the page cache: a killed process does not take it along."""
        view = self._check_view
        if view is None:
            # Missing, or cut off while it was created: make it anew with its full length, to map
            # it.
            if self._disk.file_size(self._check_path) != CHECKPOINT_SIZE:
                self._disk.make_directory(os.path.dirname(self._check_path))
                self._disk.remove_file(self._check_path)
                self._disk.create_file(self._check_path, CHECKPOINT_SIZE)
                self._new_names.add(os.path.dirname(self._check_path))
            file = self._disk.open_file(self._check_path)
            try:
                file.reserve(0, CHECKPOINT_SIZE)
            finally:
                file.close()
            view = self._check_view = self._disk.map_file(self._check_path, CHECKPOINT_SIZE)
        data = checkpoint.encode()
        view[: len(data)] = data
        self.checkpoint = checkpoint

    async def _flush_wheel(self, dirty: dict[int, Slot]) -> None:
        view = self._map_wheel()
        pages = self._write_slots(view, dirty)
        # Read pages back only after a failed sync or a restart, because it takes time.
        checked = pages if self._is_wheel_doubtful else []
        self._is_wheel_doubtful = True
        await self._on_worker(lambda: self._sync(self._wheel_path, view, checked))
        self._is_wheel_doubtful = False

    def _write_slots(self, view: memoryview, dirty: dict[int, Slot]) -> list[int]:
        """Put slots into the page cache; the pages that they lie in."""
        slots = [encode_slot(unit, slot) for unit, slot in dirty.items()]
        pages = sorted({position // PAGE for position, _ in slots})
        # Allocate each page's blocks before it is written through the mapping.
        if not self._reserved.issuperset(pages):
            handle = self._disk.open_file(self._wheel_path)
            try:
                for page in pages:
                    if page not in self._reserved:
                        handle.reserve(page * PAGE, min(PAGE, WHEEL_SIZE - page * PAGE))
            finally:
                handle.close()
            self._reserved.update(pages)
        for position, data in slots:
            view[position : position + len(data)] = data
        return pages

    def _sync(self, path: str, view: memoryview | None = None, checked: Sequence[int] = ()) -> None:
        """Sync a file, and read pages of it back."""
        file = self._disk.open_file(path)
        try:
            file.sync()
            for page in checked:
                assert view is not None
                file.verify(page * PAGE, view[page * PAGE : (page + 1) * PAGE])
        finally:
            file.close()

    async def _sync_names(self, directory: str) -> None:
        if directory in self._new_names:
            await self._on_worker(lambda: self._disk.sync_directory(directory))
            self._new_names.discard(directory)

    async def _on_worker(self, job: Job) -> None:
        await run_on(self._worker, job)

    def close(self) -> None:
        """Let go of everything."""
        self._worker.close()
        self._worker = InlineWorker()
        self._wheel_view = self._check_view = None
        self._log.close()
