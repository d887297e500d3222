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

from pocketmq.pipeline.jobs.on_spark import kind_of
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable
from pocketmq.protocol.body import decode_json
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.messages.validation import is_retry
from pocketmq.runtime.errors import CallerError

FILE: Final = "config/consumerOffset.json"


class Sample(NamedTuple):
    """The committed offsets of one broker at one moment."""

    time_ms: int
    broker: str
    offsets: Mapping[str, Mapping[int, int]]
    """`topic@group` -> queue id -> offset; those that are as they were may be left out."""


class Span(NamedTuple):
    """Messages of one queue that one look found committed by one group, or none did."""

    broker: str
    """Empty for all: looks at one broker only are those of every store that is read."""
    topic: str
    queue_id: int
    group: str
    low: int
    """First offset."""
    high: int
    """The offset behind the last."""
    before_ms: int | None
    """When the look before that was; None if there was none, so that it is not known when they were
    committed."""
    time_ms: int | None
    """When the look was; None if no look found them committed."""


MOST_OFFSET: Final = 2**63 - 1

_Place = tuple[str, str, int, str]


class CommitSamples:
    """Samples of committed offsets by group and queue."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._series: dict[_Place, list[tuple[int | None, int, int]]] = {}
        looked: dict[str, int] = {}
        # Sorted, as several files may be given whose times overlap.
        for sample in sorted(samples, key=lambda sample: sample.time_ms):
            before = looked.get(sample.broker)
            for name, offsets in sample.offsets.items():
                topic, _, group = name.partition("@")
                for queue_id, offset in offsets.items():
                    listed = self._series.setdefault((sample.broker, topic, queue_id, group), [])
                    # A reset sets offsets back; what was committed once stays committed.
                    if not listed or offset > listed[-1][2]:
                        listed.append((before, sample.time_ms, offset))
            looked[sample.broker] = sample.time_ms
        self._is_one_broker = len(looked) == 1

    def topics_of_groups(self) -> dict[str, set[str]]:
        """Group -> the topics that it commits, without its retry topic."""
        found: dict[str, set[str]] = {}
        for _, topic, _, group in self._series:
            found.setdefault(group, set())
            if not is_retry(topic):
                found[group].add(topic)
        return found

    def spans(self) -> Iterator[Span]:
        """All offsets of each queue and group that was looked at, in parts."""
        for (broker, topic, queue_id, group), listed in self._series.items():
            # With a single broker its name is ignored: samples and store may name it differently.
            place = "" if self._is_one_broker else broker, topic, queue_id, group
            low = 0
            for before_ms, time_ms, passed in listed:
                if passed > low:
                    yield Span(*place, low, passed, before_ms, time_ms)
                    low = passed
            # After the last sample nothing is known to be committed.
            yield Span(*place, low, MOST_OFFSET, None, None)


def samples_of_source(source: str) -> list[Iterator[Sample]]:
    """Those of each of a source's stores; none for topics and tables.

    Raises:
        OptionError: A directory is no store.
    """
    kind, where = kind_of(source)
    if kind != "store":
        return []
    from pocketmq.pipeline.stores.store_roots import roots_of_job

    roots = roots_of_job(where.split(","))
    return [samples_of_store(Path(str(root.path)), root.broker_name) for root in roots]


def samples_of_store(root: Path, broker: str) -> Iterator[Sample]:
    """The offsets that a store's file has, at the time of the file; and those of its `.bak`."""
    # The older file first: it is an earlier sample.
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
            # A line without an end was cut off by a kill.
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
                raise CallerError(
                    f"{path}: line {number} is not a sample of committed offsets: {exc}"
                ) from exc
