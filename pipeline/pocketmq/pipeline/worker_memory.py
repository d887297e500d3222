"""Spares Python workers the search for garbage among what they have imported."""

from __future__ import annotations

import gc
import sys

_is_kept = False


def keep_loaded() -> None:
    """In a task: have the collector pass over all objects that exist now. Only the first call does.

    Spark's daemon collects garbage after each task of a worker, before the worker gets the next
    one. PySpark, NumPy and Arrow are 60,000 objects, of which none is garbage: looking at them
    took 37 ms of processor time, several times what a task of a micro-batch needs.
    """
    global _is_kept
    # A plain reader needs no PySpark, and must not load it; a worker of Spark's has it.
    if _is_kept or "pyspark" not in sys.modules:
        return
    from pyspark import TaskContext

    if TaskContext.get() is not None:  # in other processes garbage may be among them
        _is_kept = True
        gc.freeze()
