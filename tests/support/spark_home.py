"""Where Spark's programs are, for processes that tests start.

Spark puts `python/lib/pyspark.zip` in front of its workers' path, and Python compiles what it
imports from there anew in every worker: 0.9 s of processor time each, and a test starts many. In a
home without the file, workers import the installed PySpark, which is compiled: 0.3 s.

A test's JVMs live for a minute: what the second compiler makes does not pay, and takes a third of
their processor time (`SHORT_LIVED`).
"""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from support.java import SHORT_LIVED


def spark_home(folder: Path) -> Path:
    """Make such a home in a folder."""
    home = folder / "spark-home"
    home.mkdir(parents=True)
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home


def use_spark_home(folder: Path) -> None:
    """Let this process, and those that it starts, use such a home, and JVMs of a test's length."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", " ".join(SHORT_LIVED))
    if "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = str(spark_home(folder))
