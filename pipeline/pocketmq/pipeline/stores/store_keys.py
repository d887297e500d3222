"""Which entries of a store's queues a condition on keys leaves, by the index."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pocketmq.pipeline.options.row_filter import Range, RowFilter
from pocketmq.pipeline.stores import store_index
from pocketmq.pipeline.stores.log_walk import MAX_RECORD_BYTES
from pocketmq.pipeline.stores.store_bounds import Bounded, Slice, within
from pocketmq.protocol.store_layout import FIXED_SIZE
from pocketmq.protocol.stored.record_check import check_record

if TYPE_CHECKING:
    from pocketmq.pipeline.stores.store_files import FileRow
    from pocketmq.pipeline.stores.store_roots import Root

KEY_COLUMNS: Final = ("keys", "uniqKey")


class ByKey(NamedTuple):
    """What is to be read instead of all entries."""

    slices: list[Slice]
    """Entries whose records the index has found; hashes may collide, so rows are tested."""
    unindexed: list[list[Bounded]]
    """Entries that no index file covers: for each stretch of the log those of all queues."""


def choose(
    root: Root,
    row_filter: RowFilter,
    bounds: Sequence[Bounded],
    log: FileRow,
    end: int,
    slots: int | None,
) -> ByKey | None:
    """Look the filter's keys up; None when there are none, or no index, or too much is found.

    Args:
        root: The store.
        row_filter: The query's bounds.
        bounds: The queues, narrowed by its other bounds.
        log: The store's log.
        end: Where its valid records end.
        slots: Hash slots of an index file, if not a quarter of its entries.
    """
    found: store_index.Found | None = None
    for column in KEY_COLUMNS:
        if (keys := row_filter.texts.get(column)) is not None:
            # For all topics that are read: a hash is made of topic and key together.
            hashes = store_index.hashes_of({files.topic for files, _, _ in bounds}, keys)
            found = None if hashes is None else store_index.find(root.path, hashes, slots)
            # One of the two columns is enough: Spark or the reader checks the other.
            break
    if found is None or not found.covered:
        return None
    unindexed = []
    # Messages that a running broker has not indexed yet have to be read.
    for span in store_index.uncovered(found.covered, log.start, end):
        places = Range(span.low, span.high)
        stretch = [within(files, low, high, places) for files, low, high in bounds]
        unindexed.append([each for each in stretch if each[1] < each[2]])
    slices = _slices([at for at in found.places if log.start <= at < end], bounds, log)
    return None if slices is None else ByKey(slices, [each for each in unindexed if each])


def _slices(places: Sequence[int], bounds: Sequence[Bounded], log: FileRow) -> list[Slice] | None:
    """The queues' entries of these records, where a queue has them within its bounds.

    None when there is no record where the index has one: whoever reads all will say what is wrong.
    """
    wanted: dict[tuple[str, int], Bounded] = {
        (each[0].topic, each[0].queue_id): each for each in bounds
    }
    of_queue: dict[tuple[str, int], set[int]] = defaultdict(set)
    for place in places:
        size = int.from_bytes(log.read(place, 4), "big")
        # Checked before the record is read: a broken index may point anywhere.
        if not FIXED_SIZE <= size <= MAX_RECORD_BYTES:
            return None
        message = check_record(memoryview(log.read(place, size)), 0, check_crc=False).message
        if message is None or message.commit_log_offset != place:
            return None
        queue = (message.topic, message.queue_id)
        # Another key with the same hash, or a queue that the query does not want.
        if queue not in wanted:
            continue
        files, low, high = wanted[queue]
        number = message.queue_offset
        if low <= number < high:
            entry = files.entries(number, number + 1)
            if len(entry) and entry["offset"][0] == place:  # queues do not list every record (S-22)
                of_queue[queue].add(number)
    return [
        Slice(*queue, number, number + 1)
        for queue, numbers in sorted(of_queue.items())
        for number in sorted(numbers)
    ]
