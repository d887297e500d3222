"""Looks at queues and index from their own side: entries that no record accounted for.

Reading the log (verify_log.py) tells how many entries of each queue and of the index are right.
Where that is all of them there is nothing to do here; otherwise each entry is asked for its record.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator

from pocketmq.broker.store.config import ENTRY_SIZE
from pocketmq.broker.store.index.index_file import ENTRY as INDEX_ENTRY
from pocketmq.broker.store.index.index_file import IndexFile
from pocketmq.broker.store.queues.consume_queue import ENTRY, FILLER_SIZE
from pocketmq.broker.store.tools.stopped_store import Problem, StoppedQueue, StoppedStore
from pocketmq.broker.store.tools.verify_cursors import queue_problem
from pocketmq.protocol.stored.record_check import check_record


def queue_entries(queue: StoppedQueue) -> Iterator[tuple[int, int, int]]:
    """(number, physical offset, size) of each entry up to the queue's end, fillers left out."""
    end = queue.end
    for file in queue.row.files:
        first = file.start // ENTRY_SIZE
        count = max(0, min(file.size // ENTRY_SIZE, end - first))
        for number, (physical, size, _) in enumerate(
            ENTRY.iter_unpack(file.view()[: count * ENTRY_SIZE]), first
        ):
            if size != FILLER_SIZE:
                yield number, physical, size


def count_live(queue: StoppedQueue, log_min: int) -> int:
    """Entries whose records are not deleted; the others come first."""
    end = queue.end
    low, high = queue.first, end
    while low < high:
        middle = (low + high) // 2
        entry = queue.row.read(middle * ENTRY_SIZE, ENTRY_SIZE)
        # A filler stands for no message, so it counts as deleted.
        physical, size, _ = ENTRY.unpack(entry) if entry is not None else (0, FILLER_SIZE, 0)
        if size == FILLER_SIZE or physical < log_min:
            low = middle + 1
        else:
            high = middle
    return end - low


def wrong_entries(
    store: StoppedStore, queue: StoppedQueue, log_end: int, *, will_be_cut: bool
) -> Iterator[Problem]:
    """Entries that lead to no record of this queue.

    Args:
        store: whose queue.
        queue: whose entries.
        log_end: where records end.
        will_be_cut: recovery will drop those that lead behind it, so they are not wrong.
    """
    log_min = store.log.files[0].start if store.log.files else 0
    last = -1
    for number, physical, size in queue_entries(queue):
        if 0 <= physical < log_min and physical > last:
            continue  # its record was deleted
        if will_be_cut and physical >= log_end:
            return
        problem = _wrong(store, queue, number, physical, size, log_end)
        # Entries ascend by log offset.
        if problem is None and physical <= last:
            problem = f"leads to {physical}, the one before it to {last}"
        if problem is None:
            last = physical
        else:
            yield queue_problem(queue, number, f"entry {number} {problem}")


def _wrong(
    store: StoppedStore, queue: StoppedQueue, number: int, physical: int, size: int, log_end: int
) -> str | None:
    if size <= 0 or physical < 0:
        return f"leads to {size} bytes at {physical}"
    if physical >= log_end:
        return f"leads to {physical}, the log ends at {log_end}"
    record = store.log.read(physical, size)
    checked = None if record is None else check_record(record, 0)
    if checked is None or checked.message is None or checked.size != size:
        return f"leads to {size} bytes at {physical}, where no such record is"
    message = checked.message
    if message.commit_log_offset != physical:
        return f"leads to {physical}, where a record says that it stands elsewhere"
    if (message.topic, message.queue_id) != (queue.topic, queue.queue_id):
        return f"leads to a record of {message.topic} queue {message.queue_id} at {physical}"
    if message.queue_offset != number:
        return f"leads to the record of entry {message.queue_offset} at {physical}"
    return None


def index_file_problems(file: IndexFile) -> Iterator[Problem]:
    """Chains that do not hold, and a header that does not fit the entries. 0.3 us an entry."""
    newest = array("i", bytes(4 * file.slots))
    assert newest.itemsize == 4
    slots = file.slots
    first = last = -1
    for number, (hashed, physical, seconds, older) in enumerate(
        INDEX_ENTRY.iter_unpack(file.entries(1)), 1
    ):
        slot = hashed % slots
        # A chain must lead to the entry before it in its slot.
        if older != newest[slot]:
            what = f"names {older} as the older entry of its slot, that is {newest[slot]}"
            yield _index_problem(file, number, what)
        # Entries follow the order of the log.
        if physical < last or hashed < 0 or seconds < 0:
            what = f"has hash {hashed}, log offset {physical} after {last}, {seconds} s"
            yield _index_problem(file, number, what)
        else:
            last = physical
            first = physical if first < 0 else first
        newest[slot] = number
    # Searches use the header's limits to choose files.
    if last >= 0 and (file.begin_physical, file.end_physical) != (first, last):
        said = f"{file.begin_physical} to {file.end_physical}"
        yield Problem(file.path, 16, f"the header says records {said}, entries {first} to {last}")
    # Slots in the file are big endian.
    if sys.byteorder == "little":
        newest.byteswap()
    if newest.tobytes() != file.slot_numbers():
        yield from _slot_problems(file, newest)


def _slot_problems(file: IndexFile, newest: array[int]) -> Iterator[Problem]:
    held = array("i", bytes(file.slot_numbers()))
    if sys.byteorder == "little":
        newest.byteswap()
        held.byteswap()
    for slot, (number, there) in enumerate(zip(newest, held, strict=True)):
        # One that a running broker has set since is followed back to those the header counts.
        if there != number and (found := file.newest(slot)) != number:
            what = f"slot {slot} leads to entry {found}, its newest is {number}"
            yield Problem(file.path, file.slot_at(slot), what)


def _index_problem(file: IndexFile, number: int, what: str) -> Problem:
    return Problem(file.path, file.entry_at(number), f"entry {number} {what}")


def lost_index_entries(
    store: StoppedStore, file: IndexFile, log_end: int, *, will_be_cut: bool
) -> Iterator[Problem]:
    """Entries that lead to no record; arguments as of `wrong_entries`."""
    log_min = store.log.files[0].start if store.log.files else 0
    for number, (_, physical, _, _) in enumerate(INDEX_ENTRY.iter_unpack(file.entries(1)), 1):
        # Its record has expired; the index is deleted in whole files only (S-73).
        if 0 <= physical < log_min:
            continue
        if will_be_cut and physical >= log_end:
            return
        log_file = store.log.find(physical) if physical < log_end else None
        record = (
            None if log_file is None else check_record(log_file.view(), physical - log_file.start)
        )
        if record is None or record.physical_offset != physical:
            yield _index_problem(file, number, f"leads to {physical}, where no record is")
