"""Checks a whole store: every record, queue entry and index entry, and that they fit each other.

Nothing is changed. The log is read once, in stretches of 16 MiB which several processes may share
(verify_log.py); queues and index are compared on the way, and looked at from their own side only
where something is left over (verify_derived.py).

After a kill a store is not damaged: what the next start repairs is a note, not a problem.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, pairwise
from multiprocessing import get_context

import msgspec

from pocketmq.broker.store.config import ENTRY_SIZE, MIB, StoreConfig
from pocketmq.broker.store.disk.disk import Disk
from pocketmq.broker.store.dispatch.log_scan import sound_positions
from pocketmq.broker.store.flush.checkpoint import SIZE as CHECKPOINT_SIZE
from pocketmq.broker.store.tools.running_store import open_store
from pocketmq.broker.store.tools.stopped_store import Problem, Row, StoppedStore
from pocketmq.broker.store.tools.verify_derived import (
    count_live,
    index_file_problems,
    lost_index_entries,
    wrong_entries,
)
from pocketmq.broker.store.tools.verify_log import (
    MAX_PROBLEMS,
    LogCheck,
    QueueName,
    Stretch,
)
from pocketmq.protocol import fastjson
from pocketmq.protocol.messages.properties import DELAY_LEVELS
from pocketmq.runtime.words import counted

STRETCH_BYTES = 16 * MIB
_PARALLEL_FROM = 128 * MIB

Span = tuple[int, int]
Progress = Callable[[int, int], None]
"""(bytes of the log read, bytes of the log)."""


class Verified(msgspec.Struct):
    """The result of verifying one store."""

    root: str
    log_end: int = 0
    """Log offset at which records end."""
    log_bytes: int = 0
    """Length of all records and blanks."""
    records: int = 0
    entries: int = 0
    """Queue entries that are right."""
    index_entries: int = 0
    """Index entries that are right."""
    problems: list[Problem] = []
    """What is wrong; at most a thousand of each stretch of the log."""
    problem_count: int = 0
    notes: list[str] = []
    """Remarks that are not problems."""

    def add(self, problems: Iterable[Problem]) -> None:
        """Record problems."""
        for problem in problems:
            self.problem_count += 1
            if len(self.problems) < MAX_PROBLEMS:
                self.problems.append(problem)


def verify_store(
    disk: Disk,
    root: str,
    *,
    workers: int = 1,
    index_slots: int | None = None,
    delay_levels: str = DELAY_LEVELS,
    progress: Progress | None = None,
) -> Verified:
    """Check the store at `root`.

    Args:
        disk: the file system.
        root: the store's directory.
        workers: processes that share a log of more than 128 MiB; forked, so call it while no other
            thread runs.
        index_slots: slots of an index file, when it has not four entries to each.
        delay_levels: what the broker had as `message_delay_level`.
        progress: told how far it is.

    A store that a broker has open is checked up to where its log ended when this was called.

    Raises:
        DiskError: something cannot be read at all.
    """
    with open_store(disk, root, index_slots=index_slots) as store:
        delays = StoreConfig(message_delay_level=delay_levels).delay_levels_ms()
        return _Verification(store, delays).run(workers, progress)


class _Verification:
    def __init__(self, store: StoppedStore, delays: Sequence[int]) -> None:
        self._store = store
        self._delays = delays
        self._result = Verified(store.root)
        self._matched: Counter[QueueName] = Counter()

    def run(self, workers: int, progress: Progress | None) -> Verified:
        store, result = self._store, self._result
        result.add(self._misfits(store.log, store.shape.log_file_size))
        for queue in store.queues:
            result.add(self._misfits(queue.row, store.shape.queue_file_size))
        result.add(self._index_misfits())
        stretches = self._read_log(workers, progress)
        for stretch in stretches:
            result.records += stretch.records
            result.add(stretch.problems)
            # Only the first problems of a stretch are listed, but all are counted.
            result.problem_count += stretch.problem_count - len(stretch.problems)
            self._matched.update(stretch.matched)
        result.entries = self._matched.total()
        result.index_entries = sum(stretch.indexed for stretch in stretches)
        if stretches:
            self._look_at_end(stretches[-1])
        self._look_at_queues(stretches)
        self._look_at_index(stretches)
        self._look_at_checkpoint()
        result.add(_config_problems(store))
        for row in (store.log, *(queue.row for queue in store.queues)):
            if row.unborn is not None:
                result.notes.append(f"{row.unborn}: the file is empty; the next start removes it")
        if store.is_running:
            what = f"a broker has it open; checked up to log offset {result.log_end}"
            result.notes.append(f"{what}, where its log ended when this began")
        elif not store.is_clean:
            result.notes.append("the broker did not stop cleanly; its next start will recover")
        return result

    def _misfits(self, row: Row, size: int) -> Iterator[Problem]:
        found = row.misfits(size)
        if not self._store.is_running:
            return found
        last = row.files[-1].path if row.files else ""  # ends where we stopped looking
        return (each for each in found if each.path != last)

    # -- the log ---------------------------------------------------------------------------------

    def _read_log(self, workers: int, progress: Progress | None) -> list[Stretch]:
        if not self._store.log.files:
            return []
        bounds = self._cut()
        total = bounds[-1] - bounds[0]
        spans = list(pairwise(bounds))
        found: list[Stretch] = []
        done = 0
        # Forked processes inherit the open store.
        if workers > 1 and total >= _PARALLEL_FROM and sys.platform == "linux":
            share = self._share(spans, workers)
        else:
            share = self._alone(spans)
        for stretch, read in share:
            done += read
            if progress is not None:
                progress(done, total)
            if stretch is not None:
                found.append(stretch)
        self._result.log_bytes = found[-1].end - bounds[0]
        self._result.log_end = found[-1].end
        return found

    def _cut(self) -> list[int]:
        """Log offsets of records, about a stretch apart; first the beginning, last the end."""
        files = self._store.log.files
        last = self._store.last_log_file()
        bounds = [files[0].start]
        for file in files[: files.index(last) + 1]:
            # Each stretch begins with a record, so that none is split.
            if file.start - bounds[-1] >= STRETCH_BYTES:
                bounds.append(file.start)
            while file.end - bounds[-1] > 2 * STRETCH_BYTES:
                wanted = bounds[-1] + STRETCH_BYTES - file.start
                sound = next(sound_positions(file, wanted), None)
                if sound is None:
                    break
                bounds.append(file.start + sound)
        return [*bounds, last.end]

    def _alone(self, spans: Sequence[Span]) -> Iterator[tuple[Stretch | None, int]]:
        for span in spans:
            check = LogCheck(self._store, self._delays)
            for read in check.run(*span):
                yield None, read
            yield check.found, 0
        for number in range(len(self._store.index_files())):
            self._result.add(self.check_index(number))

    def _share(self, spans: Sequence[Span], workers: int) -> Iterator[tuple[Stretch | None, int]]:
        """Have forked processes check; they have inherited the store with all it has open."""
        global _forked
        # Forked processes inherit this global, as the pool cannot hand over such an object.
        _forked = self
        try:
            with ProcessPoolExecutor(workers, mp_context=get_context("fork")) as pool:
                numbers = range(len(self._store.index_files()))
                index = [pool.submit(_check_index, number) for number in numbers]
                for stretch, span in zip(pool.map(_check, spans), spans, strict=True):
                    yield stretch, span[1] - span[0]
                for problems in index:
                    self._result.add(problems.result())
        finally:
            _forked = None

    def check(self, span: Span) -> Stretch:
        """Check one stretch to its end."""
        check = LogCheck(self._store, self._delays)
        for _ in check.run(*span):
            pass
        return check.found

    def check_index(self, number: int) -> list[Problem]:
        """Check the chains of one index file."""
        file = self._store.index_files()[number]
        return list(islice(index_file_problems(file), MAX_PROBLEMS))

    def _look_at_end(self, last: Stretch) -> None:
        if last.behind_end is None:
            return
        path, position, reason = last.behind_end
        if self._is_unfinished(last.end):
            self._result.notes.append(f"{path}: byte {position}: {reason}; recovery will cut it")
        else:
            self._result.add([Problem(path, position, reason)])

    def _is_unfinished(self, physical: int) -> bool:
        """Whether recovery will look at this part of the log before anybody is served."""
        checkpoint = self._store.checkpoint
        if self._store.is_clean:
            return False
        return not checkpoint.is_ours or physical >= checkpoint.durable_offset

    # -- what is derived from it -----------------------------------------------------------------

    def _look_at_queues(self, stretches: Sequence[Stretch]) -> None:
        result, store = self._result, self._store
        end = result.log_end
        log_min = store.log.files[0].start if store.log.files else 0
        behind: dict[QueueName, tuple[int, int]] = {}
        older: Counter[QueueName] = Counter()
        queueless: Counter[QueueName] = Counter()
        # Backwards, so that `first` comes from the earliest stretch.
        for stretch in reversed(stretches):
            for name, (count, first) in stretch.behind.items():
                behind[name] = behind.get(name, (0, 0))[0] + count, first
            older.update(stretch.older)
            queueless.update(stretch.queueless)
        missing: Counter[str] = Counter()
        topics = {queue.topic for queue in store.queues}
        for (topic, queue_id), count in queueless.items():
            # The queue is missing: deleted with its topic, or damage.
            if topic in topics and store.is_clean:
                path = os.path.join(store.root, "consumequeue", topic, str(queue_id))
                result.add(
                    [Problem(path, 0, f"the queue of {counted(count, 'record')} is missing")]
                )
            else:
                missing[topic] += count
        for topic, count in missing.items():
            result.notes.append(
                f"topic {topic} has {counted(count, 'record')} and no queue; was it deleted?"
            )
        for (topic, _), count in older.items():
            result.notes.append(
                f"topic {topic} has {counted(count, 'record')} from before it was made again"
            )
        for queue in store.queues:
            name = queue.topic, queue.queue_id
            if name in behind:
                count, first = behind[name]
                ends = f"the queue ends {counted(count, 'record')} before the log"
                what = f"{ends}, at log offset {first}"
                # Recovery adds the missing entries.
                if self._is_unfinished(first):
                    result.notes.append(f"{queue.row.directory}: {what}")
                else:
                    files = queue.row.files
                    at = queue.end * ENTRY_SIZE - files[-1].start if files else 0
                    path = files[-1].path if files else queue.row.directory
                    result.add([Problem(path, at, what)])
            # Some entries matched no record: find out which.
            if count_live(queue, log_min) != self._matched[name]:
                result.add(wrong_entries(store, queue, end, will_be_cut=self._is_unfinished(end)))

    def _index_misfits(self) -> Iterator[Problem]:
        store = self._store
        paths = {file.path for file in store.index_files()}
        for path in store.index_paths:
            if path not in paths:
                length = store.disk.file_size(path) or 0
                yield Problem(path, length, "the index file has a length that does not fit")

    def _look_at_index(self, stretches: Sequence[Stretch]) -> None:
        result, store = self._result, self._store
        files = store.index_files()
        end = result.log_end
        will_be_cut = self._is_unfinished(end)
        total = sum(file.next_entry - 1 for file in files)
        # Only if some entries matched no record, walk through the index.
        if total != result.index_entries:
            for file in files:
                result.add(lost_index_entries(store, file, end, will_be_cut=will_be_cut))
        missing = sum(stretch.not_indexed[0] for stretch in stretches)
        if missing:
            first = min(s.not_indexed[1] for s in stretches if s.not_indexed[0])
            result.notes.append(
                f"{counted(missing, 'record')} from log offset {first} on "
                f"{'is' if missing == 1 else 'are'} not in the index"
            )

    def _look_at_checkpoint(self) -> None:
        result, store = self._result, self._store
        checkpoint = store.checkpoint
        length = store.disk.file_size(checkpoint.path)
        # A missing checkpoint only makes the start slow.
        if length is None:
            if store.log.files:
                result.notes.append("there is no checkpoint; a start has to read the whole log")
            return
        if length != CHECKPOINT_SIZE:
            result.add(
                [Problem(checkpoint.path, length, f"the file ends, not at {CHECKPOINT_SIZE}")]
            )
        if not checkpoint.is_ours:
            return
        confirmed, end = checkpoint.durable_offset, result.log_end
        # The next start would read behind the log's end.
        if confirmed > end and store.log.files:
            what = f"it says that {confirmed} bytes of the log are safe, and there are {end}"
            result.add([Problem(checkpoint.path, 32, what)])
        elif store.is_clean:
            entries = sum(queue.end for queue in store.queues)
            # After a clean stop, the count must match exactly.
            if confirmed == end and entries != checkpoint.durable_entries:
                wanted = checkpoint.durable_entries
                what = f"it says that the queues have {wanted} entries, they have {entries}"
                result.add([Problem(checkpoint.path, 40, what)])


_forked: _Verification | None = None
"""What the processes of a pool work on; set while they are forked."""


def _check(span: Span) -> Stretch:
    assert _forked is not None
    return _forked.check(span)


def _check_index(number: int) -> list[Problem]:
    assert _forked is not None
    return _forked.check_index(number)


def _config_problems(store: StoppedStore) -> Iterator[Problem]:
    """Configuration files that cannot be read, if their `.bak` cannot be read either."""
    directory = os.path.join(store.root, "config")
    for name in store.disk.list_directory(directory):
        if not name.endswith(".json"):
            continue
        path = os.path.join(directory, name)
        problem = _json_problem(store.disk, path)
        if problem is not None:
            has_spare = _json_problem(store.disk, path + ".bak") is None
            # A file that is being replaced is missing for a moment, while its `.bak` exists.
            if has_spare and store.is_running:
                continue  # it is being replaced
            extra = "; its .bak can be read" if has_spare else ""
            yield Problem(path, 0, problem + extra)


def _json_problem(disk: Disk, path: str) -> str | None:
    content = disk.read_file(path)
    if content is None:
        return "there is no such file"
    try:
        fastjson.parse(content.decode())
    except ValueError as exc:
        return str(exc) or type(exc).__name__
    return None
