"""Latencies, retries and skew of topics from their messages and samples of committed offsets.

    latency("store:cluster/broker-a")

    born to store     the record's two times: the clock of the producer and that of the broker
    store to commit   the store time, and the first look at the committed offsets that found the
                      message behind it (commit_samples.py says how late that is)

Per topic, group and minute of the store time. Spark reads, joins and counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from pocketmq.pipeline.jobs.latency_rows import Latencies
from pocketmq.pipeline.jobs.on_spark import Starting, job_session, messages, plain_errors
from pocketmq.pipeline.spark.session import check_spark


def latency(
    source: str,
    *,
    samples: str | Path | None = None,
    topics: Sequence[str] = (),
    nameservers: str = "",
    master: str = "",
    starting: Starting | None = None,
) -> Latencies:
    """Compute all from a store, a table or a topic.

    Args:
        source: As `messages` takes it. A store also says what was committed when its offsets
            were last written.
        samples: A file of `sample`.
        topics: Only these.
        nameservers: For topics.
        master: Where Spark runs; two cores of this machine if nothing else is said.
        starting: Told where Spark runs before it is started.

    Raises:
        CallerError: There is no such source, or the samples are none.
        MissingToolError: PySpark, Java 17 or what reads such a table is not installed.
        JobError: Spark has failed.
    """
    check_spark()
    from pocketmq.pipeline.jobs.commit_samples import (
        CommitSamples,
        read_samples,
        samples_of_source,
    )
    from pocketmq.pipeline.jobs.latency_sums import COLUMNS, latency_of

    # Read before Spark starts, so that a wrong file fails at once.
    listed = [] if samples is None else [read_samples(Path(samples))]
    looks = CommitSamples(chain(*listed, *samples_of_source(source)))
    spark = job_session("latency", master=master, starting=starting)
    with plain_errors():
        rows = messages(spark, source, columns=COLUMNS, topics=topics, nameservers=nameservers)
        return latency_of(rows, looks)
