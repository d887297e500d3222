"""Which tests run in one process when there are several (`pytest -n 2 --dist loadgroup`)."""

from __future__ import annotations

SPARK = "spark"
ONE_PROCESS = (
    ("tests/pipeline/test_spark", SPARK),
    ("tests/cluster/test_demo.py::test_the_demo_loses_nothing", SPARK),
    ("tests/pipeline/test_topic_reading.py", "topic"),
    ("tests/pipeline/test_stream_reading.py", "stream"),
    ("tests/pipeline/test_export.py", "export"),
    ("tests/distribution/", "distribution"),
)
"""How a test's id begins, and its group: those of one share a Spark session, a cluster, an image.

Marks `xdist_group` would say it too, but with pytest 9.2 xdist 3.8 does not see them.
"""


def group_of(test_id: str) -> str:
    """The group of a test, or itself."""
    return next((group for start, group in ONE_PROCESS if test_id.startswith(start)), test_id)
