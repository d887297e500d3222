"""Spark's parent process of Python workers, which has imported what its workers need.

Spark starts it as `python -m pocketmq.pipeline.spark_daemon` where `spark.python.daemon.module`
says so, as in `session()` on Linux where tasks run on this machine. Spark kills the worker of a
task that it stops early, as for each `LIMIT`; without this, the next one imports NumPy and PySpark
again, for 0.2 processor seconds.

A process that forks must have one thread. So Arrow is not among the modules, as it starts one, and
OpenBLAS is told to start none.
"""

from __future__ import annotations

import importlib
import os
from typing import Final

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


if __name__ == "__main__":
    prepare()
    from pyspark.daemon import manager

    manager()
