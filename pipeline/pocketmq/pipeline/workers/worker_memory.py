"""Spares Python workers the search for garbage among what they have imported.

Spark's daemons collect garbage after each task of a worker, before the worker gets the next one.
PySpark, NumPy and Arrow are 60,000 objects, of which none is garbage: looking at them takes 37 ms
of processor time, several times what a task of a micro-batch needs.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

PLANNERS: Final = "pyspark.sql.worker."
"""How the first argument of the daemons of such workers begins."""

_is_kept = False
_planned = 0


def keep_loaded() -> None:
    """In a task: have the collector pass over all objects that exist now. Only the first call does.

    Called at a task's end, when all is imported.
    """
    global _is_kept
    # A plain reader needs no PySpark, and must not load it; a worker of Spark's has it.
    if _is_kept or "pyspark" not in sys.modules:
        return
    from pyspark import TaskContext

    if TaskContext.get() is not None:  # in other processes garbage may be among them
        _is_kept = True
        gc.freeze()


def keep_planner_loaded() -> None:
    """The same where Spark plans and commits a stream's batches: in workers without tasks.

    Called at the begin of such work. The second call does it: the first piece of work imports.
    """
    global _planned
    if len(sys.argv) > 1 and sys.argv[1].startswith(PLANNERS):
        _planned += 1
        if _planned == 2:
            gc.freeze()
