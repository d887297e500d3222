"""Loads one consume queue: finds the bounds of its entries, and checks them against the log."""

from __future__ import annotations

import structlog

from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.log.commit_log import CommitLog
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER_SIZE, ConsumeQueue
from pocketmq.protocol.stored.record_check import check_record

log = structlog.get_logger()

_LOOK_BEHIND = 200  # entries, one page


def load_queue(queue: ConsumeQueue, commit_log: CommitLog, confirmed: int, limit: int) -> int:
    """Load a queue's files up to its last entry of a record below `limit`.

    Entries of one queue point ever further into the log, so the end is found by bisection. A
    damaged entry would mislead that, so the result is tested: the last entry's record must say
    that it is this queue's, and no entry may follow.

    Args:
        queue: found on disk, nothing loaded yet.
        commit_log: its files are loaded, its end may not be known yet.
        confirmed: entries of records below it have to be sound.
        limit: entries of records from here on are dropped; behind `confirmed`, or the same.

    Returns:
        How many entries point below the confirmed offset; -1 when they are damaged: then the queue
        is empty now, and must be filled from the log.
    """
    row = queue.files
    try:
        row.load()
        # The queue lacks its first file although the log is complete: offsets would be wrong.
        if row.min_offset > 0 and commit_log.min_offset == 0:
            raise StoreFileError(
                row.files[0].path,
                "the commit log is whole, but the queue's first file is missing",
                advice="the broker makes the queue again from the log",
            )
        # Remove whole files behind the end, so that the end is in the last one.
        while len(row.files) > 1 and not _is_live(row.files[-1].view(), 0, limit):
            row.files.pop().remove()
        last = row.last
        if last is None:
            return 0
        data = last.view()
        live = _live(data, limit)
        # Bisection assumes ascending entries, and a damaged one would end it early.
        if _holds_entries(data, live, limit):
            raise _damaged(
                last, live, "the queue has more entries after the place where it seemed to end"
            )
        # From the end, because a kill can only damage what was appended last.
        count = _sound_entries(queue, last, data, live, commit_log, confirmed)
        first = last.start // ENTRY_SIZE
        # Usually the last file reaches beyond the confirmed offset.
        if limit == confirmed or (count and _points_below(data, count - 1, confirmed)):
            entries = first + count
        else:
            entries = _entries_below(row.files, data, confirmed)
    except StoreFileError as exc:
        # No error of the store: the queue is rebuilt from the log.
        log.warning("queue.rebuilt", topic=queue.topic, queue_id=queue.queue_id, error=str(exc))
        row.remove_all()
        return -1
    last.wrote = last.flushed = count * ENTRY_SIZE
    # Remove the files of an empty queue.
    if count == 0 and len(row.files) == 1:
        row.remove_all()
        return 0
    # Older entries are checked when they are read (mend.py), because it would take seconds here.
    queue.max_offset = queue.checked_below = first + count
    if count:
        queue.max_physical = _record_end(data, count - 1)
    return entries


def _record_end(data: memoryview, index: int) -> int:
    """Where an entry's record ends; 0 for a filler."""
    physical, size, _ = ENTRY.unpack_from(data, index * ENTRY_SIZE)
    return 0 if size == FILLER_SIZE else int(physical + size)


def _is_live(data: memoryview, index: int, limit: int) -> bool:
    """Whether an entry is a filler, or one of a record below `limit`."""
    physical, size, _ = ENTRY.unpack_from(data, index * ENTRY_SIZE)
    return bool(size > 0 and 0 <= physical < limit)


def _points_below(data: memoryview, index: int, limit: int) -> bool:
    """Whether an entry is one of a record below `limit`; then all before it are, or fillers."""
    _, size, _ = ENTRY.unpack_from(data, index * ENTRY_SIZE)
    return size != FILLER_SIZE and _is_live(data, index, limit)


def _ends_by(file: MappedFile, index: int, limit: int) -> bool:
    """Whether an entry is a filler, or one of a record that ends at `limit` or before it."""
    physical, size, _ = ENTRY.unpack_from(file.view(), index * ENTRY_SIZE)
    return bool(size == FILLER_SIZE or (size > 0 and 0 <= physical <= limit - size))


def _live(data: memoryview, limit: int) -> int:
    """Number of a file's first entry that is none, or of a record at `limit` or behind it."""
    total = len(data) // ENTRY_SIZE
    low, high = 0, 1
    while high <= total and _is_live(data, high - 1, limit):
        low, high = high, high * 2  # most queues are short: few pages are touched
    high = min(high - 1, total)
    while low < high:
        middle = (low + high) // 2
        if _is_live(data, middle, limit):
            low = middle + 1
        else:
            high = middle
    return low


def _entries_below(files: list[MappedFile], last: memoryview, limit: int) -> int:
    """Number of the first entry of a record at `limit` or behind it; 0 when all are.

    Args:
        files: of the queue.
        last: entries of the last of them.
        limit: a log offset.
    """
    for file in reversed(files):
        data = last if file is files[-1] else file.view()
        if _is_live(data, 0, limit):
            return file.start // ENTRY_SIZE + _live(data, limit)
    return 0


def _holds_entries(data: memoryview, count: int, limit: int) -> bool:
    """Whether an entry of a record below `limit` is near behind the first `count`."""
    behind = bytes(data[count * ENTRY_SIZE : (count + _LOOK_BEHIND) * ENTRY_SIZE])
    # Usually only zeros follow, which need no unpacking.
    return behind != bytes(len(behind)) and any(
        size > 0 and 0 <= where < limit for where, size, _ in ENTRY.iter_unpack(behind)
    )


def _sound_entries(
    queue: ConsumeQueue,
    file: MappedFile,
    data: memoryview,
    count: int,
    commit_log: CommitLog,
    confirmed: int,
) -> int:
    """How many of the last file's `count` entries are sound: one at its end may be torn."""
    while count:
        physical, size, _ = ENTRY.unpack_from(data, (count - 1) * ENTRY_SIZE)
        offset = file.start // ENTRY_SIZE + count - 1
        # A filler or an expired record: nothing can be compared.
        if size == FILLER_SIZE or physical < commit_log.min_offset:
            break
        record = commit_log.read(physical, size)
        if record is not None and tells_the_truth(queue, offset, record, check_crc=False):
            break
        # Confirmed entries were synced, so a wrong one is damage.
        if physical < confirmed:
            raise _damaged(
                file, count - 1, "a queue entry does not match the record to which it points"
            )
        count -= 1  # torn by a kill; the log will tell what it should have been
    return count


def _damaged(file: MappedFile, index: int, reason: str) -> StoreFileError:
    return StoreFileError(
        file.path,
        reason,
        position=index * ENTRY_SIZE,
        advice="the broker makes the queue again from the log",
    )


def tells_the_truth(
    queue: ConsumeQueue, offset: int, record: memoryview, *, check_crc: bool = True
) -> bool:
    """Whether `record`, to which entry `offset` of `queue` points, is sound and that queue's."""
    checked = check_record(record, 0, check_crc=check_crc)
    message = checked.message
    return (
        message is not None
        and checked.size == len(record)
        and message.queue_offset == offset
        and message.queue_id == queue.queue_id
        and message.topic == queue.topic
    )


def zero_behind_end(queue: ConsumeQueue) -> None:
    """Zero what lies behind a queue's end, so that no later crash takes it for entries (S-64)."""
    last = queue.files.last
    if last is not None and last.has_data_behind(last.wrote):
        last.cut(last.wrote)


def cut_at(queue: ConsumeQueue, log_end: int) -> None:
    """Drop the entries of records that the log no longer has (S-64)."""
    row = queue.files
    # Entries beyond the log's end would make consumers wait for ever (S-64).
    while queue.max_physical > log_end:
        last = row.last
        if last is None:
            return
        while len(row.files) > 1 and not _ends_by(last, 0, log_end):
            last.remove()  # before it leaves the row: if that fails, the cut is made once more
            row.files.pop()
            last = row.files[-1]
        count = min(last.wrote // ENTRY_SIZE, _live(last.view(), log_end))
        if count and not _ends_by(last, count - 1, log_end):
            count -= 1  # `log_end` lies inside its record: acknowledgements know no records
        last.wrote = count * ENTRY_SIZE
        queue.max_offset = last.start // ENTRY_SIZE + count
        queue.checked_below = min(queue.checked_below, queue.max_offset)
        queue.max_physical = _record_end(last.view(), count - 1) if count else 0


def correct_min_offset(queue: ConsumeQueue, log_min: int) -> None:
    """Set the first offset whose record still exists (S-34); an empty queue's min is its max."""
    low = queue.files.min_offset // ENTRY_SIZE
    high = queue.max_offset
    first = _next_real(queue, low, high)
    if first is not None and not 0 <= first[1] < log_min:
        queue.min_offset = first[0]  # the usual case: nothing was deleted
        return
    while low < high:
        middle = (low + high) // 2
        real = _next_real(queue, middle, high)
        if real is None:
            high = middle  # only fillers from here on: they stand for nothing
        elif 0 <= real[1] < log_min:
            low = real[0] + 1
        else:
            high = middle
    real = _next_real(queue, low, queue.max_offset)
    queue.min_offset = queue.max_offset if real is None else real[0]


def _next_real(queue: ConsumeQueue, offset: int, end: int) -> tuple[int, int] | None:
    """(offset, physical offset) of the first entry in [offset, end) that is no filler."""
    while offset < end:
        entries = queue.entries(offset, end - offset)
        if entries is None:
            return None
        for physical, size, _ in ENTRY.iter_unpack(entries):
            if size != FILLER_SIZE:
                return offset, physical
            offset += 1
    return None
