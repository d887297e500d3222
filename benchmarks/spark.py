"""`make bench-spark`: the Spark sources compared with simpler readers; medians of one run.

    decode      a store's log in one process, without Spark: ours, a Python loop, and numpy.sum
                over the same pages
    store       the same through Spark on 2 cores: record batches against tuples
    topic       a topic read through Spark against our bare client, from the same broker
    sink        rows written through Spark against our producer with batches
    jobs        audit against reading into nothing; two columns against Parquet's
    stream      a topic into a topic through micro-batches: how long from send to sink
    growth      100 MB to 4 GB: whether time grows linearly and memory stays constant
    sparse      few rows of a large store; only when asked for: it writes 4 GB

Only ratios are meaningful, because the machine's speed varies. Saved as
benchmarks/results/spark.json, a run of some sections as spark-only-SECTIONS.json.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from figures import save
from processes import HERE
from rich.console import Console
from rich.table import Table
from spark_decode import decode_rows
from spark_jobs import job_rows
from spark_loads import Figures, make_store
from spark_sparse import sparse_rows
from spark_store import growth_rows, store_rows
from spark_stream import stream_rows
from spark_topic import topic_rows

from pocketmq.pipeline import session
from pocketmq.runtime import logs

CONSOLE = Console(width=110)
SECTIONS = "decode,jobs,store,topic,stream,growth"


class Report:
    """Prints sections, and writes them into one file of their run.

    Args:
        only: the sections that were asked for; None for all.
    """

    def __init__(self, only: list[str] | None) -> None:
        self._only = only
        self._sections: dict[str, dict[str, float]] = {}

    def add(self, section: str, title: str, figures: Figures) -> None:
        """Print a section, and save it with those before it."""
        self._sections[section] = {**figures, "load average": os.getloadavg()[1]}
        save(self._sections, "spark", self._only, tell=False)
        _show(title, figures)


def _show(title: str, figures: Figures) -> None:
    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column("what")
    table.add_column("figure", justify="right")
    for name, value in figures.items():
        table.add_row(name, f"{value:,.2f}" if isinstance(value, float) else f"{value:,}")
    CONSOLE.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=SECTIONS)
    parser.add_argument("--messages", type=int, default=2_000_000, help="of the topic")
    parser.add_argument("--store-messages", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=5000, help="msg/s of the stream")
    parser.add_argument("--seconds", type=int, default=60, help="of the stream")
    parser.add_argument("--java", default="", help="options of Spark's JVM")
    parser.add_argument("--sparse-mb", type=int, default=4000)
    parser.add_argument("--sizes", default="100,500,1000,2000,4000", help="MB of the growth rows")
    options = parser.parse_args()
    logs.configure("error")
    only = options.only.split(",")
    report = Report(None if options.only == SECTIONS else only)
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder = Path(name)
        root = folder / "store"
        if {"decode", "jobs", "store"} & set(only):
            make_store(root, options.store_messages)
        if "decode" in only:
            title = "Store in one process, without Spark, 1 KiB bodies"
            report.add("decode", title, decode_rows(root, options.rounds))
        if "jobs" in only:
            report.add(
                "jobs", "Jobs over a store, without Spark", job_rows(root, folder, options.rounds)
            )
        if set(only) - {"decode", "jobs"}:
            settings = {"spark.driver.memory": "2g", "spark.driver.extraJavaOptions": options.java}
            spark = session("bench", master="local[2]", settings=settings)
            if "store" in only:
                figures = store_rows(spark, root, options.rounds)
                report.add("store", "Store through Spark on 2 cores", figures)
            if "topic" in only:
                figures = topic_rows(spark, folder, options.messages, options.rounds)
                report.add("topic", "Topic and sink through Spark, one broker", figures)
            if "stream" in only:
                figures = stream_rows(spark, folder, options.rate, options.seconds)
                report.add("stream", "From send to sink through a stream, one broker", figures)
            if "sparse" in only:
                figures = sparse_rows(spark, folder, options.sparse_mb, options.rounds)
                report.add("sparse", "Few rows of a large store", figures)
            if "growth" in only:
                sizes = [int(each) for each in options.sizes.split(",")]
                report.add("growth", "Growth", growth_rows(spark, folder, sizes, options.rounds))
            spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
