"""Log of Spark's Python workers: structlog's events through the standard `logging`.

Spark collects what goes through `logging` when `spark.sql.pyspark.worker.logging.enabled` is true,
and shows it as the table `spark.tvf.python_worker_logs()`. Otherwise warnings go to standard error.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

NAME = "pocketmq.pipeline"


@cache
def _logger() -> Any:
    import structlog

    return structlog.wrap_logger(
        logging.getLogger(NAME),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


class _Log:
    """Imports structlog at the first event: most workers have none, and it takes 0.1 s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_logger(), name)


log: Any = _Log()
