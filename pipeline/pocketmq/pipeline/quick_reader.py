"""Loads the quick reader of `pocketmq store verify`; called only for logs long enough to gain."""

from __future__ import annotations

import os

from pocketmq.broker.store.tools.stopped_store import StoppedStore
from pocketmq.broker.store.tools.verify_log import QuickReader


def quick_reader(store: StoppedStore) -> QuickReader:
    """A `ColumnReader`; loading its libraries takes 0.1 s.

    Raises:
        ImportError: NumPy is not installed.
    """
    # NumPy's BLAS, which is not used, starts threads that spin for 0.1 s beside the other workers.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from pocketmq.pipeline.verify_columns import ColumnReader

    return ColumnReader(store)
