"""Programs that run with any version of a Java client, as `java_versions/Rows.java`.

    POCKETMQ_JAVA_CLIENTS=4.2.0,4.5.2 pytest tests/interop/test_java_versions.py

Maven resolves the class path of a version once; it and the classes lie below `target/<version>`.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from support.java import SHORT_LIVED, JavaError, JavaRun

TESTS = Path(__file__).resolve().parents[1]
SOURCE = TESTS / "interop" / "java_versions" / "Rows.java"
SHARED = (TESTS / "compat" / "shared" / "Flows.java",)
"""What the programs with rows have in common."""

BUILD_TIMEOUT_S = 900.0

IN_CI = ("4.9.8", "5.5.0")
"""Those that are run when nobody asks for others; the other tests run 5.3.3."""

ROWS = (
    "send", "push", "tags", "delay", "sql", "batch", "orderly", "transaction", "timer", "recall",
    "priority", "pop", "request",
)  # fmt: skip

SINCE = {
    "transaction": (4, 3), "request": (4, 6), "timer": (5, 0), "pop": (5, 0), "recall": (5, 3, 2),
    "priority": (5, 4),
}  # fmt: skip
"""Rows that older clients lack."""

OPTIONS = (
    "--transaction-time-out-ms", "1000", "--transaction-check-interval-ms", "1500",
    "--enable-property-filter", "--default-message-request-mode", "POP",
    "--revive-queue-num", "1", "--recall-message-enable",
)  # fmt: skip
"""Of our brokers: checks come soon, and what is off by default is on."""

SETTINGS = {
    "transactionTimeOut": 1000, "transactionCheckInterval": 1500, "transactionOpBatchInterval": 300,
    "enablePropertyFilter": "true", "defaultMessageRequestMode": "POP", "timerWheelEnable": "true",
    "recallMessageEnable": "true",
}  # fmt: skip
"""The same for RocketMQ's own."""


def versions() -> list[str]:
    """The versions to run: `POCKETMQ_JAVA_CLIENTS`, or those of CI."""
    asked = os.environ.get("POCKETMQ_JAVA_CLIENTS", "")
    return [each.strip() for each in asked.split(",") if each.strip()] or list(IN_CI)


def brokers() -> list[str]:
    """Whose broker is used: `POCKETMQ_JAVA_BROKERS`, `ours` and `5.3.3`; ours when not asked."""
    return os.environ.get("POCKETMQ_JAVA_BROKERS", "ours").split(",")


def expected(version: str) -> dict[str, str]:
    """Row -> `ok`, or `absent` where the version has no such call."""
    parts = tuple(int(part) for part in version.split("."))
    return {row: "ok" if parts >= SINCE.get(row, (0,)) else "absent" for row in ROWS}


def outcomes(run: JavaRun) -> dict[str, str]:
    """Row -> what the program says of it: `ok`, `absent`, or `failed` and why."""
    return {name: " ".join(outcome) for name, *outcome in run.lines("ROW")}


def run_rows(version: str, nameservers: str, *, timeout_s: float = 900.0) -> JavaRun:
    """Run all rows with one version.

    Raises:
        JavaError: it cannot be built, or does not end.
    """
    return run_version(version, "Rows", nameservers, beside=SHARED, timeout_s=timeout_s)


def run_version(
    version: str,
    main: str,
    *args: str,
    source: Path = SOURCE,
    beside: tuple[Path, ...] = (),
    project: Path | None = None,
    properties: Mapping[str, str] | None = None,
    timeout_s: float = 600.0,
) -> JavaRun:
    """Run a main class with one version of a client on the class path.

    Args:
        version: `tested.version` of the project's `pom.xml`, which says whose it is.
        main: The class of `source`, or one of the client's.
        args: Of the program.
        source: Compiled with that version.
        beside: More sources, compiled with it.
        project: The folder of the `pom.xml`; that of `source` by default.
        properties: System properties, beside `user.home`.
        timeout_s: Real seconds after which the program is killed.

    Raises:
        JavaError: it cannot be built, or does not end.
    """
    folder = project or source.parent
    class_path = _class_path(version, (source, *beside), folder)
    target = folder / "target"
    settings = {
        "user.home": str(target / "home"),
        "rocketmq.client.logLevel": "WARN",
        **(properties or {}),
    }
    guard, ours = os.pipe()  # its end is ours: if this process dies, so does the program
    try:
        done = subprocess.run(
            [
                "java", *SHORT_LIVED, "-Xmx512m",
                "--add-opens=java.base/java.nio=ALL-UNNAMED",  # the netty of clients up to 4.8
                "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
                *(f"-D{name}={value}" for name, value in settings.items()),
                "-cp", class_path, main, *args,
            ],
            stdin=guard, capture_output=True, text=True, timeout=timeout_s,
        )  # fmt: skip
    except subprocess.TimeoutExpired as exc:
        raise JavaError(
            f"{main} with {version}: no end after {timeout_s} s\n{exc.stdout!r}\n{exc.stderr!r}"
        ) from None
    finally:
        os.close(guard)
        os.close(ours)
    return JavaRun(done.returncode, done.stdout, done.stderr)


def _class_path(version: str, sources: tuple[Path, ...], project: Path) -> str:
    folder = project / "target" / version
    folder.mkdir(parents=True, exist_ok=True)
    file, compiled = folder / "classpath", folder / f"{sources[0].stem}.compiled"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one Maven at a time, also across pytest's processes
        if not file.exists():
            goal = ["dependency:build-classpath", f"-Dmdep.outputFile={folder / 'resolved'}"]
            _run(["mvn", "-B", "-q", f"-Dtested.version={version}", *goal], project)
            (folder / "resolved").rename(file)
        path = os.pathsep.join([str(folder), file.read_text().strip()])
        newest = max(source.stat().st_mtime for source in sources)
        if not compiled.exists() or compiled.stat().st_mtime < newest:
            _run(["javac", "-nowarn", "-cp", path, "-d", str(folder), *map(str, sources)], project)
            compiled.touch()
    return path


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S
    )
    if done.returncode != 0:
        raise JavaError(f"{' '.join(command)}:\n{done.stdout}\n{done.stderr}")
