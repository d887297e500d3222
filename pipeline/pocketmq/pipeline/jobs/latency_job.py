"""Latencies, retries and skew of topics from their messages and samples of committed offsets.

    latency("store:cluster/broker-a")

    born to store     the record's two times: the clock of the producer and that of the broker
    store to commit   the store time, and the first look at the committed offsets that found the
                      message behind it (commit_samples.py says how late that is)

Per topic, group and minute of the store time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

from pocketmq.pipeline.installed import check_arrow

BORN_TO_STORE: Final = "born-to-store"
STORE_TO_COMMIT: Final = "store-to-commit"


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """Percentiles of one minute, in ms; at most 0.2 % too high."""

    measure: str
    topic: str
    group: str
    """Empty for born to store."""
    minute_ms: int
    """Epoch ms at which the minute of the store times begins."""
    count: int
    p50_ms: int
    p95_ms: int
    p99_ms: int
    p999_ms: int
    max_ms: int
    error_ms: int
    """By at most so much they are too long, for the looks were so far apart."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """How many messages of a topic a queue has got."""

    topic: str
    broker: str
    queue_id: int
    messages: int
    skew: float
    """Times the mean of the topic's queues."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One of the most frequent keys of a topic."""

    topic: str
    key: str
    count: int
    share: float
    """Of the topic's messages with a key."""


@dataclass(frozen=True, slots=True)
class GroupRow:
    """What a group's messages came to."""

    group: str
    topics: str
    messages: int
    """Of its topics."""
    retries: int
    dead_letters: int
    retry_rate: float
    """Retries for each message."""
    dead_letter_rate: float
    pending: int
    """Messages that no look found committed."""


@dataclass(slots=True)
class Latencies:
    """The result."""

    messages: int = 0
    clock_ahead: int = 0
    """Messages that were stored before they were born: the producer's clock is ahead."""
    committed_before: int = 0
    """Messages that the first look found committed already: for these it is not known when."""
    rows: list[LatencyRow] = field(default_factory=list)
    queues: list[QueueRow] = field(default_factory=list)
    keys: list[KeyRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)


def latency(
    source: str,
    *,
    samples: str | Path | None = None,
    topics: Sequence[str] = (),
    nameservers: str = "",
    on_batch: Callable[[int], None] | None = None,
) -> Latencies:
    """Compute all from a store, a table or a topic.

    Args:
        source: As `source_of` takes it. A store also says what was committed when its offsets
            were last written.
        samples: A file of `sample`.
        topics: Only these.
        nameservers: For topics.
        on_batch: Told how many messages were read.

    Raises:
        CallerError: There is no such source, or the samples are none.
        MissingToolError: PyArrow, NumPy or what reads such a table is not installed.
    """
    check_arrow("latency")
    from pocketmq.pipeline.jobs.commit_samples import (
        CommitSamples,
        read_samples,
        samples_of_store,
    )
    from pocketmq.pipeline.jobs.latency_sums import COLUMNS, latency_of
    from pocketmq.pipeline.jobs.sources import StoreSource, source_of

    found = source_of(source, topics=topics, nameservers=nameservers)
    listed = [] if samples is None else [read_samples(Path(samples))]
    if isinstance(found, StoreSource):
        listed += [samples_of_store(Path(str(root.path)), root.broker_name) for root in found.roots]
    return latency_of(
        found.batches(COLUMNS), CommitSamples(chain.from_iterable(listed)), on_batch=on_batch
    )
