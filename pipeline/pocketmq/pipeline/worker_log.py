"""Log of Spark's Python workers: structlog's events through the standard `logging`.

Spark collects what goes through `logging` when `spark.sql.pyspark.worker.logging.enabled` is true,
and shows it as the table `spark.tvf.python_worker_logs()`. Otherwise warnings go to standard error.
"""

from __future__ import annotations

import logging
from typing import Any

import structlog

NAME = "pocketmq.pipeline"

log: Any = structlog.wrap_logger(
    logging.getLogger(NAME),
    processors=[
        structlog.stdlib.filter_by_level,
        structlog.processors.KeyValueRenderer(key_order=["event"]),
    ],
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=False,
)
