"""A store as a stream: which files of its log have closed since the last batch.

A file of the log is closed when a later one has a record: brokers write the next only then. So a
stream is as far behind as the newest file is long, and needs neither queues nor a broker; it also
follows log files that are copied to `s3://` as they close.

What Spark stores: for each store the log offset behind the last file that was read, and the store
time of that file's first record, by which a store made anew is noticed.

    {"s3://bucket/broker-a": {"end": 2147483648, "mark": 1700000000000}}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pocketmq.pipeline.errors import DataLossError
from pocketmq.pipeline.store_files import FileRow, log_files
from pocketmq.pipeline.store_plan import LogPart, Root
from pocketmq.pipeline.worker_log import log as worker_log
from pocketmq.protocol.ledger import HEAD_SIZE, record_place
from pocketmq.protocol.store_layout import BLANK, FIXED_SIZE, MAGIC_V1, MAGIC_V2, RECORD

_TIME_AT: Final = RECORD.offset_of("STORETIMESTAMP")
_TIME_BYTES: Final = 8


class Stand(NamedTuple):
    """Where a stream stands in a store."""

    end: int
    """Log offset behind the last file that was read."""
    mark: int | None = None
    """Store time of that file's first record; None where no file was read."""


Stands = dict[str, Stand]
"""By the store's path."""


def to_tree(stands: Mapping[str, Stand]) -> dict[str, Any]:
    """What Spark stores."""
    return {root: {"end": each.end, "mark": each.mark} for root, each in sorted(stands.items())}


def from_tree(tree: Mapping[str, Any]) -> Stands:
    """The reverse; the tree is sound, since we made it."""
    return {root: Stand(int(each["end"]), each["mark"]) for root, each in tree.items()}


class ClosedFiles:
    """The closed files of a store's log, as they are now."""

    def __init__(self, root: Root) -> None:
        self.root = root
        with log_files(root.path) as log:
            self.first = log.start
            files = list(zip(log.starts, log.lengths, strict=True))
            while files and _first_time(log, files[-1][0]) is None:
                files.pop()  # made beforehand, and empty
            self.end = files[-1][0] if files else log.start
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

    def begin(self, stand: Stand, *, fails: bool) -> int:
        """Where reading goes on.

        Raises:
            DataLossError: What comes after the stand is gone, and `fails`.
        """
        known = self.times.get(max((at for at, _ in self.files if at < stand.end), default=-1))
        if self.end < stand.end or (None not in (stand.mark, known) and stand.mark != known):
            what = (
                f"the stream has read it up to log offset {stand.end}, and its closed files end at "
                f"{self.end} or are others: the store was replaced"
            )
            self._lose(stand, self.first, what, fails=fails)
            return self.first
        if self.first > stand.end:
            what = (
                f"the log begins at {self.first}, and the stream has read it up to {stand.end}: "
                "files were removed before they were read"
            )
            self._lose(stand, self.first, what, fails=fails)
            return self.first
        return stand.end

    def _lose(self, stand: Stand, found: int, what: str, *, fails: bool) -> None:
        if fails:
            raise DataLossError(str(self.root.path), stand.end, found, what)
        worker_log.warning(
            "files.lost", store=str(self.root.path), wanted=stand.end, found=found, reason=what
        )

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
    head = log.read(start + max(0, place), FIXED_SIZE)
    if len(head) < FIXED_SIZE:
        return None
    _, magic = BLANK.struct.unpack_from(head)
    if magic not in (MAGIC_V1, MAGIC_V2):
        return None
    return int.from_bytes(head[_TIME_AT : _TIME_AT + _TIME_BYTES], "big")


class StoreStreamPlan:
    """One stream's state on the driver.

    Args:
        roots: Finds the stores; asked once.
        fails: Whether lost files stop the stream.
    """

    def __init__(self, roots: Callable[[], list[Root]], *, fails: bool) -> None:
        self._roots = roots()
        self._fails = fails
        self._target: dict[str, int] | None = None

    def files(self) -> dict[str, ClosedFiles]:
        """What there is now, by the store's path."""
        return {str(root.path): ClosedFiles(root) for root in self._roots}

    def initial(self, *, earliest: bool) -> Stands:
        """Where a new stream begins."""
        return {
            name: each.stand(each.first if earliest else each.end)
            for name, each in self.files().items()
        }

    def set_target(self) -> None:
        """Read what is closed now, and no more."""
        self._target = {name: each.end for name, each in self.files().items()}

    def latest(self, start: Stands, most: int | None) -> Stands:
        """Where the next batch ends; stores with most files to read come first.

        Args:
            start: Where it begins.
            most: Most files of a batch; None for all.

        Raises:
            DataLossError: Files are gone that were not read.
        """
        found: Stands = {}
        files = self.files()
        begins: dict[str, int] = {}
        for name, each in files.items():
            found[name] = start.get(name, each.stand(each.first))
            begins[name] = each.begin(found[name], fails=self._fails)
        room = most
        waiting = {name: each.count(begins[name], each.end) for name, each in files.items()}
        for name in sorted(files, key=lambda name: -waiting[name]):
            each, begin = files[name], begins[name]
            end = each.after(begin, room)
            if self._target is not None:
                end = max(begin, min(end, self._target[name]))
            if room is not None:
                room -= each.count(begin, end)
            if not end == begin == found[name].end:
                found[name] = each.stand(end)
        return found

    def parts(self, start: Stands, end: Stands) -> list[LogPart]:
        """A task for each file between.

        Raises:
            DataLossError: Files are gone that belong to the batch.
        """
        found = []
        for name, each in self.files().items():
            if name not in end:
                continue
            begin = each.begin(start.get(name, each.stand(each.first)), fails=self._fails)
            found += each.parts(begin, end[name].end)
        return found
