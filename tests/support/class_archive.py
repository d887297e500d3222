"""Archives of loaded classes, from which JVMs of the same class path start.

To find, read and parse the classes of RocketMQ takes a third of the processor time of a program
that lives for seconds. `Warm.java` loads them once; a JVM that finds an archive of another Java, or
of jars that have changed, starts without it.
"""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
"""Otherwise it tells of each class that it leaves out on standard output, where tests read."""
TIMEOUT_S = 300.0


def jar_of(classes: Path, jar: Path) -> Path:
    """Pack a folder of classes: a class path with a folder has no archive."""
    with zipfile.ZipFile(jar, "w") as packed:
        for path in sorted(classes.rglob("*.class")):
            packed.write(path, path.relative_to(classes))
    return jar


def make_archive(archive: Path, arguments: Path, flags: Sequence[str]) -> None:
    """Write the archive for a class path.

    Args:
        archive: its file, which must not be in use.
        arguments: a file of arguments for `java`: the class path.
        flags: those of the JVMs that are to start from it.

    Raises:
        AssertionError: there is none; with what Java said.
    """
    archive.unlink(missing_ok=True)
    command = ["java", *flags, *QUIET, f"-XX:ArchiveClassesAtExit={archive}", f"@{arguments}"]
    done = subprocess.run(
        [*command, "pocketmq.interop.Warm"], capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert archive.exists(), f"no {archive}:\n{done.stdout}\n{done.stderr}"


def from_archive(archive: Path) -> list[str]:
    """Flags of a JVM that starts from it."""
    return [*QUIET, f"-XX:SharedArchiveFile={archive}"]
