"""Spark's parent process of Python workers, which has imported what its workers need.

Spark starts it as `python -m pocketmq.pipeline.spark_daemon` where the setting
`spark.python.daemon.module` says so, as in `session()` on Linux where tasks run on this machine.
Without this, each one imports Arrow, pandas and PySpark itself: a task that reads needs one and a
task that writes another, and Spark kills the worker of a task that it stops early, as for each
`LIMIT`.

Such a worker finds its pipe closed, and Spark's own code prints a traceback of it for each `LIMIT`.
Here it leaves without a word.

A process that forks must have one thread. So OpenBLAS is told to start none, and so is the
allocator jemalloc in Arrow.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
from typing import IO, Final

MODULES: Final = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyspark.worker",
    "pyspark.sql.conversion",
    "pyspark.sql.datasource",
    "pyspark.sql.pandas.serializers",
    "pyspark_pocketmq",
    "pyspark_pocketmq_store",
    "pocketmq.pipeline.columns.fixed_fields",
    "pocketmq.pipeline.sending.sender",
    "pocketmq.pipeline.spark.sink",
    "pocketmq.pipeline.sending.sink_rows",
    "pocketmq.pipeline.spark.store_source",
    "pocketmq.pipeline.spark.stream_source",
    "pocketmq.pipeline.progress.topic_read",
    "pocketmq.protocol.compression",
    "pocketmq.protocol.stored.record",
    "pocketmq.protocol.stored.record_check",
    "pocketmq.protocol.messages.subscription",
)

OPTIONAL: Final = ("pandas", "uvloop")
"""Taken where they are installed."""


def prepare() -> None:
    """Import what workers need."""
    # Set before the imports: the libraries read these variables when they are loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    for name in (*MODULES, *filter(importlib.util.find_spec, OPTIONAL)):
        importlib.import_module(name)


def leave_quietly() -> None:
    """Let workers end without a traceback when Spark has what it wants and has closed the pipe.

    Spark's daemon writes what is left in the buffer when a worker has ended, whatever its end. To a
    closed pipe that fails again; so it goes nowhere then.
    """
    from pyspark import worker

    work = worker.main

    def main(infile: IO[bytes], outfile: IO[bytes]) -> None:
        try:
            work(infile, outfile)
        # Also after an exception, which a closed pipe causes.
        finally:
            try:
                outfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                # Replaced and not closed, so that a later flush does not fail.
                os.dup2(nowhere, outfile.fileno())
                os.close(nowhere)

    worker.main = main


if __name__ == "__main__":
    prepare()
    leave_quietly()
    from pyspark.daemon import manager

    gc.freeze()  # `worker_memory` says why
    manager()
