"""Spark's parent process of Python workers, which has imported what its workers need.

Spark starts it as `python -m pocketmq.pipeline.spark_daemon` where `spark.python.daemon.module`
says so, as in `session()` on Linux where tasks run on this machine. Spark kills the worker of a
task that it stops early, as for each `LIMIT`; without this, the next one imports NumPy and PySpark
again, for 0.2 processor seconds.

Such a worker finds its pipe closed, and Spark's own code prints a traceback of it for each `LIMIT`.
Here it leaves without a word.

A process that forks must have one thread. So Arrow is not among the modules, as it starts one, and
OpenBLAS is told to start none.
"""

from __future__ import annotations

import gc
import importlib
import os
from typing import IO, Final

MODULES: Final = (
    "numpy",
    "pyspark.worker",
    "pyspark.sql.datasource",
    "pyspark_pocketmq",
    "pyspark_pocketmq_store",
    "pocketmq.pipeline.fixed_fields",
    "pocketmq.pipeline.store_source",
    "pocketmq.protocol.compression",
    "pocketmq.protocol.record",
    "pocketmq.protocol.record_check",
    "pocketmq.protocol.subscription",
)


def prepare() -> None:
    """Import what workers need."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in MODULES:
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
        finally:
            try:
                outfile.flush()
            except (BrokenPipeError, ConnectionResetError):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, outfile.fileno())
                os.close(nowhere)

    worker.main = main


if __name__ == "__main__":
    prepare()
    leave_quietly()
    from pyspark.daemon import manager

    gc.freeze()  # `worker_memory` says why
    manager()
