"""Loads one consume queue: where its entries end, where they begin, whether they tell the truth."""

from __future__ import annotations

import structlog

from pocketmq.broker.store.commit_log import CommitLog
from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.consume_queue import ENTRY, FILLER_SIZE, ConsumeQueue
from pocketmq.broker.store.errors import StoreFileError
from pocketmq.broker.store.mapped_file import PAGE, MappedFile
from pocketmq.protocol.record import check_record

log = structlog.get_logger()


def load_queue(queue: ConsumeQueue, commit_log: CommitLog, confirmed: int) -> bool:
    """Load a queue's files up to its last entry of a record below `confirmed`.

    Entries of one queue point ever further into the log, so the end is found by bisection. A
    damaged entry would lead that astray, so what it found is tested: the last entry's record must
    say that it is this queue's, and no entry for the log below `confirmed` may follow.

    Returns:
        False when the queue had to be emptied and must be filled from the log.
    """
    row = queue.files
    try:
        row.load()
        while len(row.files) > 1 and not _is_live(row.files[-1], 0, confirmed):
            row.files.pop().remove()
        last = row.last
        if last is None:
            return True
        count = _live_entries(last, confirmed)
        _test_end(queue, last, count, commit_log, confirmed)
    except StoreFileError as exc:
        log.warning("queue.rebuilt", topic=queue.topic, queue_id=queue.queue_id, error=str(exc))
        row.remove_all()
        return False
    last.wrote = last.flushed = count * ENTRY_SIZE
    if count:
        queue.max_offset = last.start // ENTRY_SIZE + count
        physical, size, _ = ENTRY.unpack_from(last.view(), (count - 1) * ENTRY_SIZE)
        queue.max_physical = 0 if size == FILLER_SIZE else physical + size
    else:
        row.remove_all()
    queue.checked_below = queue.max_offset
    return True


def _is_live(file: MappedFile, index: int, confirmed: int) -> bool:
    """Whether an entry is a filler, or one of a record below `confirmed`."""
    physical, size, _ = ENTRY.unpack_from(file.view(), index * ENTRY_SIZE)
    return bool(size > 0 and 0 <= physical < confirmed)


def _live_entries(file: MappedFile, confirmed: int) -> int:
    low, high = 0, file.size // ENTRY_SIZE
    while low < high:
        middle = (low + high) // 2
        if _is_live(file, middle, confirmed):
            low = middle + 1
        else:
            high = middle
    return low


def _test_end(
    queue: ConsumeQueue, file: MappedFile, count: int, commit_log: CommitLog, confirmed: int
) -> None:
    view = file.view()
    behind = view[count * ENTRY_SIZE : min(file.size, count * ENTRY_SIZE + PAGE) // 20 * 20]
    if any(
        size > 0 and 0 <= physical < confirmed for physical, size, _ in ENTRY.iter_unpack(behind)
    ):
        raise _damaged(file, count, "more entries follow the one that looks like the last")
    if count == 0:
        return
    physical, size, _ = ENTRY.unpack_from(view, (count - 1) * ENTRY_SIZE)
    if size == FILLER_SIZE or physical < commit_log.min_offset:
        return
    record = commit_log.read(physical, size)
    if record is None or not tells_the_truth(
        queue, file.start // ENTRY_SIZE + count - 1, record, check_crc=False
    ):
        raise _damaged(file, count - 1, "the entry does not fit its record")


def _damaged(file: MappedFile, index: int, reason: str) -> StoreFileError:
    return StoreFileError(
        file.path, reason, position=index * ENTRY_SIZE, advice="it is made again from the log"
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
    if last is not None and last.wrote < last.size:
        following = last.disk.next_data(last.path, last.wrote)
        if following is not None and any(last.view()[last.wrote :]):
            last.cut(last.wrote)


def correct_min_offset(queue: ConsumeQueue, log_min: int) -> None:
    """Set the first offset whose record still exists (S-34); an empty queue's min is its max."""
    low = queue.files.min_offset // ENTRY_SIZE
    high = queue.max_offset
    while low < high:
        middle = (low + high) // 2
        real = _next_real(queue, middle, high)
        if real is None:
            high = middle  # only fillers from here on: they stand for nothing
        elif real[1] < log_min:
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
