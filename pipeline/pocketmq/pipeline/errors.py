"""Errors between Spark and a cluster or a store, sorted by who can correct them.

    PocketMQError                     (the whole tree is in pocketmq.runtime.errors)
    ├── CallerError
    │   ├── OptionError               an option of a read or write has an unknown name or bad value
    │   │   ├── TopicAwayError        no name server knows the topic, or none of its brokers runs
    │   │   ├── NameServersAwayError  no name server answers
    │   │   └── StoreAwayError        an executor does not have the driver's store directory
    │   ├── OtherCheckpointError      a table has batches of another checkpoint under this app_id
    │   └── ColumnsError              columns that the source lacks or the sink does not take
    ├── PeerError
    │   ├── DataLossError             offsets to be read are not stored any more
    │   ├── BrokerAwayError           a broker whose queues are read stays away
    │   └── JobError                  Spark has ended a query
    └── DiskError
        └── CorruptRecordError        a file of a store has no valid record where one should be

Spark shows the last line of a worker's traceback, so each message is one line that stands alone.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path

from pocketmq.runtime.errors import CallerError, DiskError, PeerError


class OptionError(CallerError):
    """An option has a name that does not exist or a value that cannot be used.

    Args:
        source: `pocketmq` or `pocketmq-store`.
        option: Its name, as the user wrote it.
        problem: What is wrong.
        near: Similar names or values, which the message proposes.
    """

    def __init__(self, source: str, option: str, problem: str, *, near: Iterable[str] = ()) -> None:
        self.source = source
        self.option = option
        self.problem = problem
        self.near = tuple(near)
        meant = f"; did you mean {' or '.join(map(repr, self.near))}?" if self.near else ""
        super().__init__(f"{source}: option {option!r}: {problem}{meant}")


class TopicAwayError(OptionError):
    """No name server knows the topic: it does not exist, or every broker that has it is down."""


class NameServersAwayError(OptionError):
    """No name server answers."""


class StoreAwayError(OptionError):
    """An executor does not have the store directory that the driver has found."""


class ColumnsError(CallerError):
    """A data frame has a column with an unknown name or the wrong type, or lacks one."""


class OtherCheckpointError(CallerError):
    """A table has a batch of this number or a later one under this app_id, from other rows.

    Args:
        table: The table's path or address.
        app_id: The query's name in the table.
        last: Number of the last batch that the table has of it.
        batch: Number of the batch that was to be appended.
    """

    def __init__(self, table: str, app_id: str, last: int, batch: int) -> None:
        self.table = table
        self.app_id = app_id
        self.last = last
        self.batch = batch
        # A batch number below the table's last one means that the checkpoint was begun anew.
        came = f", and now comes batch {batch}" if last > batch else ", from another checkpoint"
        super().__init__(
            f"{table}: it has batch {last} of app_id {app_id!r} already{came}; "
            "a new checkpoint needs a new app_id"
        )


class DataLossError(PeerError):
    """Offsets that were to be read are gone: retention, a topic made anew, a queue taken away.

    Args:
        queue: The queue, as the message names it.
        wanted: First offset to be read.
        found: First offset that the queue has now; or its end, if that is smaller than `wanted`.
        what: What has happened, if it is not that offsets fall outside of what is stored.
        advice: What to do, where option failOnDataLoss has another name.
    """

    def __init__(
        self,
        queue: str,
        wanted: int,
        found: int,
        what: str = "",
        *,
        advice: str = "set failOnDataLoss=false to go on without them, or start elsewhere",
    ) -> None:
        self.queue = queue
        self.wanted = wanted
        self.found = found
        # Retention raises the first offset; a topic made anew ends before the wanted offset.
        if not what:
            what = (
                f"offsets {wanted} to {found - 1} ({found - wanted} messages) are not stored any "
                f"more; the queue now begins at {found}"
                if found > wanted
                else f"offset {wanted} does not exist; the queue now ends at {found}"
            )
        super().__init__(f"{queue}: {what}; {advice}")


class BrokerAwayError(PeerError):
    """A broker whose queues are read is not there; the stream ends rather than leave them out."""


class JobError(PeerError):
    """Spark has ended a query; the message says why in one line, the cause is Spark's exception."""


class CorruptRecordError(DiskError):
    """A file of a store has no valid record where its queue, index or log says that one begins."""

    def __init__(self, path: Path | str, position: int, reason: str) -> None:
        self.position = position
        """Byte in the file."""
        self.why = reason
        super().__init__(
            path,
            f"no valid record at byte {position}: {reason}",
            advice="set mode=PERMISSIVE to skip and count such records",
        )


def near(word: str, known: Iterable[str]) -> list[str]:
    """Up to three of the known words that are similar to this one; case does not matter."""
    by_lower = {each.lower(): each for each in known}
    # Compared in lower case, but returned as spelled.
    return [by_lower[match] for match in difflib.get_close_matches(word.lower(), by_lower, n=3)]
