"""When groups' committed offsets passed messages, as far as samples of the offsets can tell.

Neither a log nor `consumerOffset.json` says when an offset was committed. So offsets are looked at
again and again (offset_looks.py), and a message counts as committed at the first look that has an
offset behind it. That is late by at most the time since the look before, and by the interval at
which the consumer commits (5 s in RocketMQ's push consumers).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.protocol.body import decode_json
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.runtime.errors import CallerError

Ints = npt.NDArray[np.int64]

FILE: Final = "config/consumerOffset.json"


class Sample(NamedTuple):
    """The committed offsets of one broker at one moment."""

    time_ms: int
    broker: str
    offsets: Mapping[str, Mapping[int, int]]
    """`topic@group` -> queue id -> offset; those that are as they were may be left out."""


class Commits(NamedTuple):
    """When messages of one queue were committed by one group; rows that it is not known for are
    left out."""

    rows: Ints
    waited_ms: Ints
    """From the message's store time to the look that found it committed."""
    error_ms: int
    """By at most so much each of them is too long."""
    pending: int
    """Messages that no look found committed."""
    earlier: int
    """Messages that the first look already found committed: it is not known when."""


_Place = tuple[str, str, int, str]
_NEVER: Final = -1


class CommitSamples:
    """Samples of committed offsets by group and queue."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        series: dict[_Place, list[tuple[int, int, int]]] = {}
        looked: dict[str, int] = {}
        for sample in sorted(samples, key=lambda sample: sample.time_ms):
            before = looked.get(sample.broker, _NEVER)
            for name, offsets in sample.offsets.items():
                topic, _, group = name.partition("@")
                for queue_id, offset in offsets.items():
                    listed = series.setdefault((sample.broker, topic, queue_id, group), [])
                    # A reset sets offsets back; what was committed once stays committed.
                    if not listed or offset > listed[-1][2]:
                        listed.append((before, sample.time_ms, offset))
            looked[sample.broker] = sample.time_ms
        self.brokers = set(looked)
        self._series: dict[tuple[str, str, int], dict[str, Ints]] = {}
        for (broker, topic, queue_id, group), listed in series.items():
            columns = np.array(listed, np.int64).T
            self._series.setdefault((broker, topic, queue_id), {})[group] = columns

    def topics_of_groups(self) -> dict[str, set[str]]:
        """Group -> the topics that it commits, without its retry topic."""
        found: dict[str, set[str]] = {}
        for (_, topic, _), groups in self._series.items():
            for group in groups:
                found.setdefault(group, set())
                if not is_retry(topic):
                    found[group].add(topic)
        return found

    def commits(
        self, broker: str, topic: str, queue_id: int, offsets: Ints, stored_ms: Ints
    ) -> Iterator[tuple[str, Commits]]:
        """For each group of a queue, when it committed the messages at these offsets."""
        if broker not in self.brokers and len(self.brokers) == 1:
            (broker,) = self.brokers
        for group, (before, times, passed) in self._series.get(
            (broker, topic, queue_id), {}
        ).items():
            look = np.searchsorted(passed, offsets, "right")
            is_committed = look < len(times)
            at = np.minimum(look, len(times) - 1)
            rows = np.flatnonzero(is_committed & (before[at] != _NEVER))
            found = times[at[rows]]
            waited = found - stored_ms[rows]
            gaps = np.minimum(found - before[at[rows]], np.maximum(waited, 0))
            pending = len(offsets) - int(np.count_nonzero(is_committed))
            yield (
                group,
                Commits(
                    rows,
                    waited,
                    int(np.max(gaps)) if len(gaps) else 0,
                    pending,
                    len(offsets) - pending - len(rows),
                ),
            )


def samples_of_store(root: Path, broker: str) -> Iterator[Sample]:
    """The offsets that a store's file has, at the time of the file; and those of its `.bak`."""
    for path in (root / (FILE + ".bak"), root / FILE):
        try:
            data, status = path.read_bytes(), path.stat()
        except FileNotFoundError:
            continue
        try:
            table = decode_json(data, ConsumerOffsetTable) if data.strip() else None
        except BadRequestError:
            continue  # the audit says so
        if table is not None:
            yield Sample(status.st_mtime_ns // 1_000_000, broker, table.offset_table)


def read_samples(path: Path) -> Iterator[Sample]:
    """What `sample` of offset_looks.py has written; a last line that a kill cut off is left out.

    Raises:
        CallerError: The file is something else.
    """
    with path.open() as file:
        for number, line in enumerate(file, 1):
            if not line.endswith("\n"):
                return
            try:
                row = json.loads(line)
                offsets = {
                    name: {int(queue): int(offset) for queue, offset in changed.items()}
                    for name, changed in row["offsets"].items()
                }
                yield Sample(int(row["timeMs"]), row["broker"], offsets)
            except (ValueError, KeyError, TypeError, AttributeError) as exc:
                raise CallerError(f"{path}: line {number} is no sample of offsets: {exc}") from exc
