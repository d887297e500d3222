"""What a Spark cluster needs whose executors do not have PocketMQ installed, as two files.

    pocketmq-spark.zip      our code and its dependencies in pure Python: --py-files
    pocketmq-deps.tar.gz    the same, and dependencies with compiled parts: --archives

Spark puts a zip file on the path of its workers, and Python imports from it, but never a compiled
module. So those travel as an archive that Spark unpacks beside each executor. Workers of a source
that Spark has found by its name do not get the zip file either (their function was made by Spark,
not by the driver's Python), so the archive has our code too. Executors need the
same Python version and platform as this machine, and PyArrow and NumPy, as PySpark itself does.

A driver in cluster mode needs both too, and Spark has a setting of its own for its environment.

Further packages come along on demand, each with what it needs, such as `s3fs` for stores at
`s3://`. They go into the archive whatever their parts: some read data files beside their modules.

Python sees a namespace package, which `pocketmq` is, in a zip file only if the file has an entry
for the folder itself.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import platform
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from pocketmq.runtime.errors import MissingToolError

PARTS: Final = ("runtime", "protocol", "operation", "client", "pipeline")
"""What the sources and the sink are made of."""
MODULES: Final = ("pyspark_pocketmq", "pyspark_pocketmq_store")
PURE: Final = ("structlog", "aiofiles")
COMPILED: Final = ("msgspec", "msgpack")
OPTIONAL: Final = ("lz4", "zstandard")
"""Compiled as well, and taken along where they are installed."""
OF_EXECUTORS: Final = frozenset({"pyspark", "py4j", "pyarrow", "numpy"})
"""Never taken along."""
CODE: Final = "pocketmq-spark.zip"
DEPENDENCIES: Final = "pocketmq-deps.tar.gz"
UNPACKED: Final = "pocketmq-deps"
"""The folder that Spark unpacks the dependencies into, beside each executor."""
DRIVER_PATHS: Final[Mapping[str, str]] = {
    "yarn": "spark.yarn.appMasterEnv.PYTHONPATH",
    "kubernetes": "spark.kubernetes.driverEnv.PYTHONPATH",
}
"""Where the driver runs in the cluster: the setting of its PYTHONPATH."""

_OLDEST: Final = (1980, 1, 1, 0, 0, 0)
_REQUIREMENT: Final = re.compile(r"([\w.-]+)(?:\s*\[([^\]]*)\])?")
_EXTRA: Final = re.compile(r"""\bextra\s*==\s*['"]([^'"]+)""")


@dataclass(frozen=True, slots=True)
class Packed:
    """The two files, and how to use them."""

    code: Path
    dependencies: Path

    @property
    def arguments(self) -> list[str]:
        """What `spark-submit` is given."""
        return [
            *("--py-files", str(self.code)),
            *("--archives", f"{self.dependencies}#{UNPACKED}"),
            *("--conf", f"spark.executorEnv.PYTHONPATH={UNPACKED}"),
        ]

    @property
    def cluster_mode(self) -> dict[str, list[str]]:
        """What `spark-submit --deploy-mode cluster` is given besides, by cluster manager."""
        return {
            manager: ["--conf", f"{setting}={UNPACKED}"]
            for manager, setting in DRIVER_PATHS.items()
        }

    @property
    def settings(self) -> dict[str, str]:
        """The same for a session that is made in Python."""
        return {
            "spark.submit.pyFiles": str(self.code),
            "spark.archives": f"{self.dependencies}#{UNPACKED}",
            "spark.executorEnv.PYTHONPATH": UNPACKED,
        }


def package(folder: Path, also: Sequence[str] = ()) -> Packed:
    """Write both files; the same versions make the same bytes.

    Args:
        folder: Where they are written; it is made.
        also: Packages that executors lack besides, as pip calls them, such as `s3fs` or
            `fastavro`. What they need comes along.

    Raises:
        MissingToolError: A dependency, or one of these packages, is not installed here.
    """
    code = dict(_code())
    compiled = code | dict(_compiled())
    for each in _with_needs(also):
        compiled.update(_files_of(each))
    folder.mkdir(parents=True, exist_ok=True)
    packed = Packed(folder / CODE, folder / DEPENDENCIES)
    with zipfile.ZipFile(packed.code, "w") as archive:
        folders: set[str] = set()
        for name, path in sorted(code.items()):
            # Folders get entries too (see the module), outer ones first.
            for above in reversed(Path(name).parents):
                if str(above) != "." and str(above) not in folders:
                    folders.add(str(above))
                    # With a fixed time the same versions give the same bytes.
                    archive.writestr(zipfile.ZipInfo(f"{above}/", _OLDEST), b"")
            archive.writestr(
                zipfile.ZipInfo(name, _OLDEST), path.read_bytes(), zipfile.ZIP_DEFLATED
            )
    with (
        packed.dependencies.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, path in sorted(compiled.items()):
            # Owner, mode and time are left out, as they differ between machines.
            entry = tarfile.TarInfo(name)
            data = path.read_bytes()
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return packed


def platform_name() -> str:
    """Which executors can use the dependencies."""
    major, minor = sys.version_info[:2]
    return f"Python {major}.{minor}, {platform.system()} {platform.machine()}"


def _code() -> Iterator[tuple[str, Path]]:
    for part in PARTS:
        found = importlib.util.find_spec(f"pocketmq.{part}")
        assert found is not None
        assert found.submodule_search_locations is not None
        for root in map(Path, found.submodule_search_locations):
            for path in root.rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield f"pocketmq/{part}/{path.relative_to(root)}", path
    for module in MODULES:
        found = importlib.util.find_spec(module)
        assert found is not None
        assert found.origin is not None
        yield f"{module}.py", Path(found.origin)
    for name in PURE:
        yield from _files(name)


def _compiled() -> Iterator[tuple[str, Path]]:
    for name in COMPILED:
        yield from _files(name)
    for name in OPTIONAL:
        if importlib.util.find_spec(name) is not None:
            yield from _files(name)


def _with_needs(names: Sequence[str]) -> Iterator[Distribution]:
    """The packages, what they need, what that needs, and so on, each once."""
    seen: set[tuple[str, str]] = set()
    waiting = [(name, False) for name in names]
    while waiting:
        text, is_conditional = waiting.pop()
        match = _REQUIREMENT.match(text.strip())
        name, extras = (match[1], match[2] or "") if match else (text, "")
        # For pip `a_b`, `A-b` and `a.b` are the same package.
        own = re.sub(r"[-_.]+", "-", name).lower()
        if own in OF_EXECUTORS or (own, extras) in seen:
            continue
        seen.add((own, extras))
        try:
            found = distribution(name)
        except (PackageNotFoundError, ValueError):
            # Conditions are not evaluated here: a conditional package that is not installed is for
            # other machines.
            if is_conditional:
                continue  # for another platform or Python
            raise MissingToolError(name, "a package for Spark", f"pip install {name}") from None
        yield found
        for need in found.requires or ():
            requirement, _, condition = need.partition(";")
            extra = _EXTRA.search(condition)
            # Packages of an extra are included only if the extra is asked for.
            if extra is None or extra[1] in re.split(r"\s*,\s*", extras):
                waiting.append((requirement, bool(condition)))


def _files(name: str) -> Iterator[tuple[str, Path]]:
    """The files of a distribution that PocketMQ needs."""
    if importlib.util.find_spec(name) is None:
        raise MissingToolError(name, "a package for Spark", "pip install 'pocketmq[spark]'")
    return _files_of(distribution(name))


def _files_of(found: Distribution) -> Iterator[tuple[str, Path]]:
    """A distribution's files below site-packages."""
    for file in found.files or ():
        path = Path(str(file.locate()))
        # Scripts lie outside of site-packages, and executors do not need them.
        if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
            yield str(file), path
