"""A standalone Spark cluster on loopback, a master and workers in processes of their own, whose
Python has what PySpark needs and nothing of ours.

Driver and executors have a `python3` each, as Spark calls it where nothing is said. The driver's
cannot be started by executors, as on another machine, where its path leads nowhere.
"""

from __future__ import annotations

import contextlib
import os
import re
import site
import socket
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pocketmq.pipeline.spark.package import UNPACKED
from support.real_rocketmq import free_port
from support.spark_home import spark_home

COMMAND = "python3"
"""What Spark starts; another program on the driver and on the executors."""
OF_EXECUTORS = "OF_THE_EXECUTORS"
"""In the environment of what does not run on the driver's machine."""
LENT = ("pyspark", "py4j", "pyarrow", "numpy", "pandas", "dateutil", "pytz", "six.py", "tzdata")


@dataclass(frozen=True)
class Standalone:
    """A running cluster."""

    home: Path
    master: str
    driver_env: Mapping[str, str]
    bare_env: Mapping[str, str]
    driver_python: Path
    """Has the package; refuses to run on executors."""
    strange_env: Mapping[str, str]
    """A driver's, whose PATH leads to a Python without anything."""
    started: Path
    """Has a line for each time that executors started their Python."""

    def submit(
        self,
        job: Path,
        *arguments: str,
        options: Sequence[str] = (),
        unpacked_in: Path | None = None,
    ) -> str:
        """Run a job with spark-submit in client mode; what it prints.

        Args:
            job: The program.
            arguments: What it is given.
            options: What spark-submit is given.
            unpacked_in: The driver has the executors' Python, runs in this folder, where archives
                are unpacked, and has them on its path, as YARN and Kubernetes do in cluster mode.
        """
        command = [
            *(str(self.home / "bin" / "spark-submit"), "--master", self.master),
            *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"),
            *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.memory=512m"),
            *("--conf", "spark.executor.cores=1", "--conf", "spark.log.level=ERROR"),
            *(*options, str(job), *arguments),
        ]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=dict(self.bare_env if unpacked_in else self.driver_env),
            cwd=unpacked_in,
            timeout=500,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@contextmanager
def standalone(folder: Path, *, workers: int = 2) -> Iterator[Standalone]:
    """A cluster for the length of a block."""
    home = spark_home(folder)
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    env.pop("PYTHONPATH", None)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        env.pop(name, None)
    driver_python, started = full_python(folder / "driver"), folder / "started.txt"
    driver = {**env, "PATH": f"{driver_python.parent}:{env['PATH']}"}
    note = f"echo $$ >> {started}\n"
    executor = _on_path(env, folder / "executor-bin", bare_python(folder / "bare"), note)
    strange = _on_path(env, folder / "strange-bin", Path("/bin/false"))
    executors = {**executor, OF_EXECUTORS: "1"}
    with ExitStack() as stack:
        master = _started(
            stack,
            executors,
            ["master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"],
            folder / "master.log",
            r"Starting Spark master at (spark://\S+)",
        )
        for number in range(workers):
            _started(
                stack,
                executors,
                [
                    *("worker.Worker", "--host", "127.0.0.1", "--webui-port", "0", "-c", "1"),
                    *("-m", "800m", "-d", str(folder / f"work-{number}"), master),
                ],
                folder / f"worker-{number}.log",
                r"Successfully registered with master (\S+)",
            )
        bare = {**executor, "PYTHONPATH": UNPACKED}
        yield Standalone(home, master, driver, bare, driver_python, strange, started)


def _on_path(
    env: Mapping[str, str], folder: Path, python: Path, before: str = ""
) -> dict[str, str]:
    folder.mkdir()
    _script(folder / COMMAND, f'{before}exec {python} "$@"\n')
    return {**env, "PATH": f"{folder}:{env['PATH']}"}


def _script(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/bash\n{text}")
    path.chmod(0o755)


def full_python(folder: Path) -> Path:
    """A Python with all that this one has, at a path of its own; executors cannot start it."""
    venv.create(folder, with_pip=False)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    roots = "".join(f"import site; site.addsitedir({root!r})\n" for root in site.getsitepackages())
    (packages / "all.pth").write_text(roots)
    python = folder / "bin" / COMMAND
    refused = (
        f'if [ -n "${OF_EXECUTORS}" ]; then echo "$0: no such Python here" >&2; exit 127; fi\n'
    )
    base = Path(sys.executable).resolve()
    _script(python, f'{refused}exec -a "$0" {base} "$@"\n')
    return python


def bare_python(folder: Path) -> Path:
    """A Python with PySpark and its dependencies, lent by this one, and nothing else."""
    venv.create(folder, with_pip=False)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    for root in map(Path, site.getsitepackages()):
        for path in root.iterdir():
            if path.name.removesuffix(".libs") in LENT:
                (packages / path.name).symlink_to(path)
    return folder / "bin" / "python"


def _started(
    stack: ExitStack, env: Mapping[str, str], words: Sequence[str], log: Path, says: str
) -> str:
    """Start a process of Spark's; what its log says of its address."""
    role, *arguments = words
    command = [
        str(Path(env["SPARK_HOME"], "bin", "spark-class")),
        f"org.apache.spark.deploy.{role}",
        *arguments,
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**env, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOG_DIR": str(log.parent)},
    )
    assert process.stderr is not None
    errors = process.stderr

    def stop() -> None:
        process.terminate()
        process.communicate(timeout=200)

    stack.callback(stop)
    seen = []
    for line in errors:
        seen.append(line)
        if found := re.search(says, line):
            return found[1]
    raise AssertionError("".join(seen))


@contextmanager
def connect_server(folder: Path) -> Iterator[int]:
    """A server of Spark Connect for the length of a block; its port."""
    port = free_port()  # the JVM listens seconds later
    home = spark_home(folder)
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
    env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.memory": "700m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["spark-internal"]
    log = (folder / "connect.log").open("w")
    process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
    try:
        _wait_for_port(port, process, folder / "connect.log")
        yield port
    finally:
        process.terminate()
        process.wait(200)
        log.close()


def _wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    pause = threading.Event()
    for _ in range(1800):
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        pause.wait(0.1)
    raise AssertionError(log.read_text())
