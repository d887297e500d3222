"""Checks stores completely, and replicas against each other: `pocketmq pipeline audit`.

    audit(["cluster/broker-a"])

The checks of log, queues and index are those of `pocketmq store verify`
(`pocketmq.broker.store.tools.verify`): every record's CRC, its one queue entry with size and tag
hash, offsets without gap or repeat, its keys in the index, and no entry that leads elsewhere. An
audit adds the committed offsets (`committed_offsets`) and the comparison of replicas (`replicas`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.tools.stopped_store import Problem, StoppedStore, find_stores
from pocketmq.broker.store.tools.verify import Verified, verify_store
from pocketmq.pipeline.jobs import committed_offsets, replicas
from pocketmq.protocol.messages.properties import DELAY_LEVELS
from pocketmq.runtime.errors import CallerError

MOST_FINDINGS: Final = 10_000

AuditProgress = Callable[[str, int, int], None]
"""(store, bytes of the log read, bytes of the log)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, and where."""

    store: str
    check: str
    """`log`, `queue`, `index`, `offsets`, `config`, `checkpoint` or `replica`."""
    file: str
    position: int
    """Byte in the file."""
    what: str


@dataclass(slots=True)
class Audit:
    """The result of an audit."""

    stores: list[Verified] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    """What is wrong; of one store at most as many as `verify` keeps."""
    count: int = 0
    """How many there are, also of those that are not kept."""
    notes: list[str] = field(default_factory=list)
    """Remarks that are not problems."""

    def add(self, store: str, problems: Iterable[Problem], check: str = "") -> None:
        """Record problems of a store."""
        for problem in problems:
            self.count += 1
            # All problems are counted but few are kept: those of a broken store could fill the
            # memory.
            if len(self.findings) < MOST_FINDINGS:
                kind = check or _check_of(os.path.relpath(problem.path, store))
                place = problem.path, problem.position, problem.what
                self.findings.append(Finding(store, kind, *place))


def audit(
    stores: Sequence[str | Path],
    *,
    against_first: bool = False,
    workers: int = 1,
    index_slots: int | None = None,
    delay_levels: str = DELAY_LEVELS,
    progress: AuditProgress | None = None,
) -> Audit:
    """Check every store, and with `against_first` compare each with the first.

    Args:
        stores: Store directories, or folders of them. No broker may have one open.
        against_first: They are replicas of one broker, its master first.
        workers: Processes that share a long log.
        index_slots: Hash slots of an index file, if it has not four entries to a slot.
        delay_levels: What the brokers had as `message_delay_level`.
        progress: Told how far it is.

    Raises:
        CallerError: A directory is no store, or there is nothing to compare.
        StoreLockedError: A broker has a store open.
        DiskError: Something cannot be read at all.
    """
    disk = OsDisk()
    # The stores are looked up first, so that a wrong name fails before hours of work.
    roots = [root for store in stores for root in find_stores(disk, str(store))]
    if against_first and len(roots) < 2:
        raise CallerError(
            "to compare replicas, name at least two stores, and the master's store as the first"
        )
    found = Audit()
    for root in roots:

        def show(done: int, total: int, root: str = root) -> None:
            if progress is not None:
                progress(root, done, total)

        verified = verify_store(
            disk,
            root,
            workers=workers,
            index_slots=index_slots,
            delay_levels=delay_levels,
            progress=show,
        )
        found.stores.append(verified)
        found.add(root, verified.problems)
        # Problems that `verify` has counted but not kept.
        found.count += verified.problem_count - len(verified.problems)
        found.notes += [f"{root}: {note}" for note in verified.notes]
        with StoppedStore(disk, root, index_slots=index_slots) as store:
            offsets = committed_offsets.out_of_range(store)
        found.add(root, offsets.problems, "offsets")
        found.notes += [f"{root}: {note}" for note in offsets.notes]
    # Replicas are compared last, up to where each log was found to end.
    if against_first:
        for verified in found.stores[1:]:
            _compare(disk, found, found.stores[0], verified)
    return found


def _compare(disk: OsDisk, found: Audit, first: Verified, other: Verified) -> None:
    with StoppedStore(disk, first.root) as master, StoppedStore(disk, other.root) as slave:
        compared = replicas.compare(master, slave, (first.log_end, other.log_end))
    found.add(other.root, compared.problems, "replica")
    found.notes += compared.notes
    same = f"{other.root} has the log of {first.root} up to log offset {compared.same_until}"
    found.notes.append(same)


def _check_of(path: str) -> str:
    first = path.split(os.sep, 1)[0]
    return {"commitlog": "log", "consumequeue": "queue"}.get(first, first)
