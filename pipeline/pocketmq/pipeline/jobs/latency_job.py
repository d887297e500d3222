"""Latencies, retries and skew of topics from their messages and samples of committed offsets.

    latency("store:cluster/broker-a")

    born to store     the record's two times: the clock of the producer and that of the broker
    store to commit   the store time, and the first look at the committed offsets that found the
                      message behind it (commit_samples.py says how late that is)

Per topic, group and minute of the store time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from pocketmq.pipeline.installed import check_arrow
from pocketmq.pipeline.jobs.latency_rows import Latencies


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
