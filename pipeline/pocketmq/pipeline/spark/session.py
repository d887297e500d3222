"""Makes a Spark session with suitable settings; says in one line when Java is missing.

    from pocketmq.pipeline import session
    spark = session("flights")

Any other session works too. This one has the settings that are easily forgotten: times are UTC, and
filters reach the sources. Where Spark runs on this machine, workers also run the same Python, and
it listens on loopback only. On a cluster its executors have to reach the driver and have a Python
of their own, so both is left to Spark, as is all that spark-submit was given; only the driver's
`python3` becomes the Python that calls this.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pocketmq.runtime.errors import MissingToolError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LEAST_JAVA: Final = 17

SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.python.authenticate.socketTimeout": "120s",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.pyspark.worker.logging.enabled": "true",
}
"""The settings of `session`; what spark-submit was given and the caller's take precedence."""
ON_THIS_MACHINE: Final[Mapping[str, str]] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}
"""Those where driver and executors are on this machine: `local` and `local-cluster`."""
LATER_COMPILER: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000"
)
"""Java's second compiler takes a method after ten times as many calls as usual.

In a stream's first minutes it takes more processor time than the batches. Loops over rows are as
soon compiled as ever: it counts their rounds by themselves, and calls for each row are many."""
IN_THIS_PROCESS: Final[Mapping[str, str]] = {
    "spark.driver.defaultJavaOptions": LATER_COMPILER,
    "spark.python.daemon.module": "pocketmq.pipeline.spark_daemon",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}
"""Those where tasks run in this process's JVM, so that workers have the package.

There the checkpoints of streams are mostly local files. Spark's usual manager of such files starts
`chmod` and `readlink` as processes, many for each micro-batch; this one hardly any. Both write a
file under another name and rename it.

The options of the driver's Java are defaults: `spark.driver.extraJavaOptions` come behind them."""


def session(
    app_name: str = "pocketmq",
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The Spark session of this process, made if there is none.

    Args:
        app_name: Its name in Spark's web pages.
        master: Where it runs; by default what `SPARK_MASTER` in the environment or spark-submit
            says, or else all cores of this machine. On a cluster, `PYSPARK_PYTHON` in the
            environment names the Python of driver and executors; it is python3 otherwise.
        settings: Further settings of Spark, or other values for those made here.

    Raises:
        MissingToolError: PySpark, or Java 17 or later, is not installed.
    """
    check_spark()
    from pyspark.sql import SparkSession

    given = submitted()
    # The caller's values win; the values below only fill in.
    own = {**({"spark.master": master} if master else {}), **(settings or {})}
    if from_environment := os.environ.get("SPARK_MASTER"):
        own.setdefault("spark.master", from_environment)
    # A default must not override spark-submit's own master.
    if "spark.master" not in given:
        own.setdefault("spark.master", "local[*]")
    place = own.get("spark.master") or given["spark.master"]
    if is_on_this_machine(place):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    elif "PYSPARK_PYTHON" not in os.environ:
        # Spark starts `python3` then, and for sources on the driver too. Executors have one of
        # their own. PYSPARK_DRIVER_PYTHON is no help: with sources that Spark finds by their name
        # it has executors start that path as well.
        own_folder = str(Path(sys.executable).parent)
        os.environ["PATH"] = os.pathsep.join((own_folder, os.environ.get("PATH", os.defpath)))
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings_for(place).items():
        # The operator has set these for spark-submit.
        if name not in given:
            own.setdefault(name, value)
    for name, value in own.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    from pocketmq.pipeline.spark.stream_figures import figures

    figures(spark)  # lag, skew and losses of each query are known from its first batch on
    return spark


def settings_for(master: str) -> dict[str, str]:
    """What `session` sets of itself where Spark runs there."""
    found = dict(SETTINGS)
    if is_on_this_machine(master):
        found |= ON_THIS_MACHINE
        # `local-cluster` starts JVMs of its own, whose workers lack the package.
        if not master.startswith("local-cluster") and sys.platform == "linux":
            found |= IN_THIS_PROCESS
    return found


def is_on_this_machine(master: str) -> bool:
    """Whether driver and executors are on one machine, so that loopback leads to both."""
    return re.fullmatch(r"local(-cluster)?(\[.*\])?", master) is not None


def submit_settings(words: str) -> dict[str, str]:
    """Spark's settings among the words for spark-submit, as in PYSPARK_SUBMIT_ARGS."""
    found = {}
    given = iter(shlex.split(words))
    for word in given:
        name, is_joined, value = word.partition("=")
        if name == "--master":
            found["spark.master"] = value if is_joined else next(given, "")
        elif name in ("--conf", "-c"):
            setting = value if is_joined else next(given, "")
            key, _, of_key = setting.partition("=")
            found[key] = of_key
    return found


def submitted() -> dict[str, str]:
    """What spark-submit was given, if it has started this process or is to start the JVM."""
    # No JVM runs yet, so only the arguments that will start it are known.
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return submit_settings(os.environ.get("PYSPARK_SUBMIT_ARGS", ""))
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to spark-submit's JVM, which knows
    return dict(SparkConf().getAll())


def check_spark() -> None:
    """Check that Spark can be started here.

    Raises:
        MissingToolError: PySpark is not installed, or Java is not, or too old.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise MissingToolError("PySpark", "Spark", "pip install 'pocketmq[spark]'")
    check_java()


def check_java() -> None:
    """Check that Spark will find a Java that it can run on.

    Raises:
        MissingToolError: There is none, or it is too old.
    """
    found = java_version()
    if found is None:
        raise _no_java("no `java` was found in JAVA_HOME or PATH")
    path, version = found
    if version < LEAST_JAVA:
        raise _no_java(f"{path} is Java {version}")


def java_version() -> tuple[str, int] | None:
    """Path and feature release of the Java that Spark would start; None when there is none."""
    home = os.environ.get("JAVA_HOME")
    # Spark's own scripts look in JAVA_HOME before PATH as well.
    inside = Path(home, "bin", "java") if home else None
    path = str(inside) if inside and inside.exists() else shutil.which("java")
    if path is None:
        return None
    try:
        ran = subprocess.run(  # noqa: S603
            [path, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Java 8 calls itself 1.8.
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return None if match is None else (path, int(match[1]))


def _no_java(found: str) -> MissingToolError:
    return MissingToolError(
        f"Java {LEAST_JAVA} or later",
        "Spark",
        f"{found}; install one (apt-get install openjdk-17-jre-headless) or set JAVA_HOME",
    )
