"""A store as a stream: which files of its log have closed since the last batch.

A file of the log is closed when a later one has a record: brokers write the next only then. So a
stream is as far behind as the newest file is long, and needs neither queues nor a broker; it also
follows log files that are copied to `s3://` as they close.
"""

from __future__ import annotations

from collections.abc import Callable, Set

from pocketmq.pipeline.progress.store_losses import FileLoss, FileLossPolicy, removed, replaced
from pocketmq.pipeline.progress.store_stands import Stand, Stands
from pocketmq.pipeline.stores.store_files import FileRow, log_files
from pocketmq.pipeline.stores.store_plan import LogPart
from pocketmq.pipeline.stores.store_roots import Root
from pocketmq.pipeline.workers.worker_log import log
from pocketmq.protocol.store_layout import BLANK, FIXED_SIZE, MAGIC_V1, MAGIC_V2, store_time_ms
from pocketmq.protocol.stored.ledger import HEAD_SIZE, record_place


class ClosedFiles:
    """The closed files of a store's log, as they are now."""

    def __init__(self, root: Root) -> None:
        self.root = root
        with log_files(root.path) as log:
            self.first = log.start
            self.length = log.lengths[0] if log.lengths else 0
            files = list(zip(log.starts, log.lengths, strict=True))
            while files and _first_time(log, files[-1][0]) is None:
                files.pop()  # made beforehand, and empty
            self.end = files[-1][0] if files else log.start
            # The last file with records is still being written.
            self.files = files[:-1]
            self.times = {start: _first_time(log, start) for start, _ in self.files}

    def stand(self, end: int) -> Stand:
        """The stand at the end of a file, or at the beginning."""
        before = [start for start, length in self.files if start + length == end]
        return Stand(end, self.times[before[0]] if before else None)

    def after(self, start: int, most: int | None = None) -> int:
        """The end of the last of the next `most` files."""
        ends = [at + length for at, length in self.files if at >= start][:most]
        return ends[-1] if ends else start

    def count(self, start: int, end: int) -> int:
        """How many files there are between."""
        return sum(start <= at < end for at, _ in self.files)

    def begin(
        self, stand: Stand, seen: int, until: int | None = None
    ) -> tuple[int, list[FileLoss]]:
        """Where reading goes on, and what is lost by that.

        Args:
            stand: Where the stream stands.
            seen: End of the closed files when they were last looked at.
            until: Where a batch that was planned before ends.
        """
        name = str(self.root.path)
        # The file that was read last, or another one at its place.
        known = self.times.get(max((at for at, _ in self.files if at < stand.end), default=-1))
        # A log only grows: if it ends earlier, or has another record there, it was replaced.
        if self.end < stand.end or (None not in (stand.mark, known) and stand.mark != known):
            files = self._files(max(0, seen - stand.end))
            return self.first, [replaced(name, stand, self.first, self.end, files)]
        if self.first > stand.end:
            # Of a repeated batch only its own files count, not those of later batches.
            gone = self.first if until is None else min(self.first, until)
            files = self._files(gone - stand.end)
            return self.first, [removed(name, stand, self.first, files)]
        return stand.end, []

    def _files(self, log_bytes: int) -> int:
        """How many files have so many bytes; all of a log's are equally long."""
        return -(-log_bytes // self.length) if self.length else 0

    def parts(self, start: int, end: int) -> list[LogPart]:
        """A task for each file."""
        return [
            LogPart(self.root.path, self.root.broker_name, at, at + length, is_closed=True)
            for at, length in self.files
            if start <= at < end
        ]


def _first_time(log: FileRow, start: int) -> int | None:
    """Store time of the record at which a file begins; None when it has none yet."""
    place = record_place(log.read(start, HEAD_SIZE), 0, start)  # of an entry of DLedger's
    # The head is enough for the time; the body may be in a file that is still being copied.
    head = log.read(start + max(0, place), FIXED_SIZE)
    if len(head) < FIXED_SIZE:
        return None
    _, magic = BLANK.struct.unpack_from(head)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return None
    return store_time_ms(head)


class StoreStreamPlan:
    """One stream's state on the driver.

    Args:
        roots: Finds the stores; asked once.
        fails: Whether lost files stop the stream.
    """

    def __init__(self, roots: Callable[[], list[Root]], *, fails: bool) -> None:
        self._roots = roots()
        self.policy = FileLossPolicy(fails=fails)
        self._target: dict[str, int] | None = None
        self._seen: dict[str, int] = {}
        """By store: end of the closed files when they were last looked at."""
        self._judged: tuple[Stands, dict[str, int]] | None = None
        """Where the last planned batch begins, and what had been seen before it."""
        self._planned_bytes = 0
        self._left_out: set[str] = set()

    def counts(self) -> dict[str, int]:
        """What this process has counted since the query started, and the size of the batch."""
        return {
            "logBytes": self._planned_bytes,
            "lostFiles": self.policy.lost,
            "remade": self.policy.replaced,
        }

    def files(self) -> dict[str, ClosedFiles]:
        """What there is now, by the store's path."""
        return {str(root.path): ClosedFiles(root) for root in self._roots}

    def initial(self, *, earliest: bool) -> Stands:
        """Where a new stream begins."""
        files = self.files()
        self._seen = {name: each.end for name, each in files.items()}
        return {
            name: each.stand(each.first if earliest else each.end) for name, each in files.items()
        }

    def set_target(self) -> None:
        """Read what is closed now, and no more."""
        self._target = {name: each.end for name, each in self.files().items()}

    def latest(self, start: Stands, most: int | None) -> Stands:
        """Where the next batch ends; stores with most files to read come first.

        Args:
            start: Where it begins; stores that are not read now stay there.
            most: Most files of a batch; None for all.

        Raises:
            DataLossError: Files are gone that were not read.
        """
        found = dict(start)  # a store that is left out this time stays where it is
        files = self.files()
        begins: dict[str, int] = {}
        self._planned_bytes = 0
        self._tell(start.keys() - files.keys())
        for name, each in files.items():
            found[name] = start.get(name, each.stand(each.first))
            begins[name], losses = each.begin(found[name], self._seen.get(name, 0))
            self.policy.judge(losses)
        # The files seen before this look are kept, so that a repeated batch counts the same losses.
        self._judged = (dict(start), self._seen)
        self._seen = {name: each.end for name, each in files.items()}
        room = most
        waiting = {name: each.count(begins[name], each.end) for name, each in files.items()}
        # The store that is furthest behind goes first: otherwise the limit might never leave it a
        # place.
        for name in sorted(files, key=lambda name: -waiting[name]):
            each, begin = files[name], begins[name]
            end = each.after(begin, room)
            if self._target is not None:
                end = max(begin, min(end, self._target[name]))
            if room is not None:
                room -= each.count(begin, end)
            self._planned_bytes += end - begin
            # A store that has not moved keeps its stand and mark, so that no empty batch is made.
            if not end == begin == found[name].end:
                found[name] = each.stand(end)
        return found

    def _tell(self, left_out: Set[str]) -> None:
        for name in sorted(left_out - self._left_out):
            log.warning(
                "store.left_out", store=name, reason="it stays where the stream has read it"
            )
        self._left_out = set(left_out)

    def parts(self, start: Stands, end: Stands) -> list[LogPart]:
        """A task for each file between.

        Raises:
            DataLossError: Files are gone that belong to the batch.
        """
        found = []
        seen: dict[str, int] = {}
        if self._judged is not None and self._judged[0] == start:
            seen = self._judged[1]
        for name, each in self.files().items():
            # This store was added to the options after the batch was planned.
            if name not in end:
                continue
            until = end[name].end
            stand = start.get(name, each.stand(each.first))
            begin, losses = each.begin(stand, seen.get(name, until), until)
            self.policy.judge(losses)
            found += each.parts(begin, until)
        return found
