"""Loads the quick reader of `pocketmq store verify`, once it is known that a log is long."""

from __future__ import annotations

import os

from pocketmq.broker.store.stopped_store import StoppedStore
from pocketmq.broker.store.verify_log import QuickReader


def quick_reader(store: StoppedStore) -> QuickReader:
    """A reader by columns; its libraries take a tenth of a second to load.

    Raises:
        ImportError: NumPy is not installed.
    """
    # NumPy's BLAS, which is not used, starts threads that spin for 0.1 s beside the other workers.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from pocketmq.pipeline.verify_columns import ColumnReader

    return ColumnReader(store)
