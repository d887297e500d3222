"""Reads a stretch of the log, and compares each record with its queue entry and index entries."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec

from pocketmq.broker.store.disk.mapped_file import MappedFile
from pocketmq.broker.store.dispatch.log_scan import sound_positions
from pocketmq.broker.store.log.commit_log import UNCOUNTED
from pocketmq.broker.store.tools.stopped_store import Problem, StoppedStore, first_content
from pocketmq.broker.store.tools.verify_cursors import IndexCursor, Outcome, QueueCursor
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.protocol.messages.subscription import tags_code
from pocketmq.protocol.scalars import MessageSysFlag
from pocketmq.protocol.stored.ledger import REST_OF_FILE, record_place
from pocketmq.protocol.stored.record_check import RecordKind, check_record

MAX_PROBLEMS = 1000
"""Kept of each stretch, the rest is counted."""

_STEP = 4096  # over a record or over damage, between two looks of a listener

QueueName = tuple[str, int]


class Stretch(msgspec.Struct):
    """What was found in a stretch of the log. Travels between processes."""

    end: int = 0
    """Log offset at which its records end."""
    records: int = 0
    problems: list[Problem] = []
    problem_count: int = 0
    behind_end: tuple[str, int, str] | None = None
    """(path, position, reason) when bytes that are no record follow the last one."""
    matched: dict[QueueName, int] = {}
    """Records for which their queue has the right entry."""
    behind: dict[QueueName, tuple[int, int]] = {}
    """(how many, log offset of the first) records that lie behind their queue's end."""
    older: dict[QueueName, int] = {}
    """Records from before their queue was made: their topic was deleted, and made again."""
    queueless: dict[QueueName, int] = {}
    """Records of queues that do not exist."""
    indexed: int = 0
    """Index entries that some record accounts for."""
    not_indexed: tuple[int, int] = (0, 0)
    """(how many, log offset of the first) records with a key behind the index' end."""


class LogCheck:
    """One reading of a stretch of the log.

    Args:
        store: whose log.
        delay_levels_ms: delay of level 0 (none), 1, 2, ...: entries of delayed messages hold it.
    """

    def __init__(self, store: StoppedStore, delay_levels_ms: Sequence[int]) -> None:
        self.found = Stretch()
        self._store = store
        self._delays = delay_levels_ms
        self._queues = {(os.fsencode(q.topic), q.queue_id): q for q in store.queues}
        self._cursors: dict[tuple[bytes, int], QueueCursor] = {}
        self._index = IndexCursor(store.index_files())

    def run(self, start: int, end: int) -> Iterator[int]:
        """Check from `start`, where a record begins, to `end`; yields how many bytes, by and by."""
        self.found.end = start
        yield from self._read(start, end)
        self.found.matched = {
            (topic.decode(), queue_id): cursor.matched
            for (topic, queue_id), cursor in self._cursors.items()
            if cursor.matched
        }
        self.found.indexed = self._index.matched

    def _read(self, start: int, end: int) -> Iterator[int]:
        """Check record by record; `found.end` tells how far there are any."""
        self._index.seek(start)
        last = self._store.last_log_file()
        at = start
        while at < end and (file := self._store.log.find(at)) is not None:
            position, limit = at - file.start, min(file.size, end - file.start)
            for reached in self._run_in_file(file, position, limit, is_last=file is last):
                yield reached - position
                position = reached
            self.found.end = file.start + position
            if position < limit:
                break
            at = file.start + limit

    def _run_in_file(
        self, file: MappedFile, position: int, limit: int, *, is_last: bool
    ) -> Iterator[int]:
        """Check one file's part; yields positions, the last of them where its records end."""
        view = file.view()
        steps = 0
        while position < limit:
            if steps % _STEP == 0:
                yield position
            steps += 1
            if self._store.is_ledger:
                position = record_place(view, position, file.start + position)
                if position == REST_OF_FILE:
                    yield limit
                    return
            checked = check_record(view, position, limit)
            message = checked.message
            # A blank must cover the rest of the file.
            if checked.kind is RecordKind.BLANK and checked.size == file.size - position:
                yield limit
                return
            if message is not None and message.commit_log_offset == file.start + position:
                self._record(message)
                position += checked.size
                continue
            if message is not None:
                reason = f"the record says that it stands at {message.commit_log_offset}"
            elif checked.kind is RecordKind.BLANK:
                reason = f"a blank of {checked.size} bytes where {file.size - position} are left"
            else:
                reason = checked.reason or "zeros where a record should be"
            # Go on at the next sound record, so that one fault is reported once.
            following = next(sound_positions(file, position + 1), None)
            # In the last file, this is the end of the log and no loss.
            if following is None and is_last and limit == file.size:
                self._note_rest(file, position, checked.reason)
                break
            self._problem(Problem(file.path, position, reason))
            position = min(limit, following or limit)
        yield position

    def _note_rest(self, file: MappedFile, position: int, reason: str) -> None:
        """No record follows: does anything else?"""
        other = first_content(file, position)
        if other is not None:
            reason = reason or "bytes that are no record, behind the last one"
            self.found.behind_end = (file.path, other, reason)

    # -- one record -----------------------------------------------------------------------------

    def _record(self, message: MessageExt) -> None:
        self.found.records += 1
        kind = message.sys_flag & MessageSysFlag.TRANSACTION_MASK
        if kind not in UNCOUNTED:
            self._compare_with_queue(message)
        if self._index.is_there and kind != MessageSysFlag.TRANSACTION_ROLLBACK:
            self._compare_with_index(message)

    def _compare_with_queue(self, message: MessageExt) -> None:
        name = message.topic, message.queue_id
        key = message.topic.encode(), message.queue_id
        cursor = self._cursors.get(key)
        if cursor is None:
            queue = self._queues.get(key)
            if queue is None:
                self.found.queueless[name] = self.found.queueless.get(name, 0) + 1
                return
            cursor = self._cursors[key] = QueueCursor(self._store, queue)
        code = tags_code(message.tags)
        # The entry of a delayed message holds its due time (B-91).
        if cursor.is_schedule and message.delay_level > 0:
            level = min(message.delay_level, len(self._delays) - 1)
            code = message.store_timestamp_ms + self._delays[level]
        outcome, problem = cursor.compare(
            message.queue_offset, (message.commit_log_offset, message.store_size, code)
        )
        if outcome is Outcome.BEHIND:
            count, first = self.found.behind.get(name, (0, message.commit_log_offset))
            self.found.behind[name] = count + 1, first
        elif outcome is Outcome.OLDER:
            self.found.older[name] = self.found.older.get(name, 0) + 1
        if problem is not None:
            self._problem(problem)

    def _compare_with_index(self, message: MessageExt) -> None:
        keys = [message.uniq_key] if message.uniq_key is not None else []
        keys += message.keys.split(" ") if message.keys else []
        problems, is_behind = self._index.compare(message, [key for key in keys if key])
        for problem in problems:
            self._problem(problem)
        if is_behind:
            count, first = self.found.not_indexed
            self.found.not_indexed = count + 1, first if count else message.commit_log_offset

    def _problem(self, problem: Problem) -> None:
        self.found.problem_count += 1
        if len(self.found.problems) < MAX_PROBLEMS:
            self.found.problems.append(problem)
