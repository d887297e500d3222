"""The modules that `scripts/mutate.py` makes faults in, and which tests run each of their lines.

    modules = named_modules(copy, ["broker.pop."])     pure modules by parts of their names
    measure(copy, modules, ["tests/broker/pop"], target, jobs=2)
    Coverage(json.loads(target.read_text()), naming).tests(file, line, most_s=20.0)

`measure` runs the tests once, with the plugin of covering.py, in as many processes as jobs.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROLES = ("client", "broker", "nameserver", "controller", "operation", "protocol")
EDGE_ROLES = ("broker", "controller", "nameserver", "client")
QUICK = "not cluster and not java and not slow and not root and not go and not browser"
FAR_BACK = 20
"""Lines: an expression over several lines is run as the first of them."""


@dataclass(frozen=True)
class Module:
    """One that faults are made in."""

    name: str
    file: str
    source: str

    @property
    def sum(self) -> str:
        """Checksum of its source; results for another source are ignored."""
        return hashlib.sha256(self.source.encode()).hexdigest()[:16]


def named_modules(copy: Path, wanted: Sequence[str]) -> list[Module]:
    """The pure modules that some parts of names choose, and any other that is named in full."""
    found = {module.name: module for module in pure_modules(copy, wanted)}
    for name in wanted:
        dotted = f"pocketmq.{name.removeprefix('pocketmq.')}"
        file = copy / dotted.split(".")[1] / f"{dotted.replace('.', '/')}.py"
        if dotted not in found and file.is_file():
            path = file.relative_to(copy).as_posix()
            found[dotted] = Module(dotted, path, file.read_text(encoding="utf-8"))
    return list(found.values())


def pure_modules(copy: Path, wanted: Iterable[str]) -> list[Module]:
    """The pure modules of the roles and the protocol, with packages expanded."""
    contracts = configparser.ConfigParser()
    contracts.read(copy / ".importlinter")
    names = contracts["importlinter:contract:pure"]["source_modules"].split()
    found = []
    for name in names:
        role = name.split(".")[1]
        if role not in ROLES:
            continue
        base = copy / role / name.replace(".", "/")
        files = sorted(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
        for file in files:
            parts = file.relative_to(copy / role).with_suffix("").parts
            dotted = ".".join(parts).removesuffix(".__init__")
            if not wanted or any(each in dotted for each in wanted):
                path = file.relative_to(copy).as_posix()
                found.append(Module(dotted, path, file.read_text(encoding="utf-8")))
    return found


def edge_modules(copy: Path, wanted: Sequence[str]) -> list[Module]:
    """The modules of the four roles that are not pure; those first that are wanted first."""
    pure = {module.file for module in pure_modules(copy, ())}
    found: list[Module] = []
    for role in EDGE_ROLES:
        base = copy / role
        for file in sorted((base / "pocketmq" / role).rglob("*.py")):
            path = file.relative_to(copy).as_posix()
            dotted = ".".join(file.relative_to(base).with_suffix("").parts)
            if path not in pure and file.stem != "__init__":
                found.append(Module(dotted, path, file.read_text(encoding="utf-8")))
    if not wanted:
        return found
    chosen = [
        module
        for part in wanted
        for module in found
        if part in module.name or module.name == f"pocketmq.{part}"
    ]
    return list(dict.fromkeys(chosen))


class Coverage:
    """The tests that run each line.

    Args:
        data: what `measure` wrote.
        naming: file of a module -> test files that import it themselves.
    """

    def __init__(self, data: dict[str, Any], naming: Mapping[str, Collection[str]]) -> None:
        self._naming = naming
        self._seconds: dict[str, float] = data["seconds"]
        self._files: dict[str, dict[str, list[str]]] = data["files"]
        self._imported = {file: set(lines) for file, lines in data["imported"].items()}

    def is_imported(self, file: str, line: int) -> bool:
        """Whether the line also runs when modules are imported."""
        return line in self._imported.get(file, ())

    def tests(self, file: str, line: int, most_s: float) -> list[str]:
        """The tests of a line; those of the module for a line that only an import runs.

        Those in a test file named like the module come first, then those in files that import it
        themselves, then the fastest, as many as take `most_s` processor seconds together; one that
        takes longer is passed over.
        """
        own = f"_{Path(file).stem}.py"
        naming = self._naming.get(file, ())

        def distance(test: str) -> int:
            name = test.partition("::")[0]
            return 0 if name.endswith(own) else 1 if name in naming else 2

        lines = self._files.get(file, {})
        found = {test for tests in lines.values() for test in tests}
        # What reads its constants only runs none of its lines.
        found |= {test for test in self._seconds if distance(test) < 2}
        if not found:  # nothing of the module runs but its import: any test of the role shows it
            found = {
                test for test in self._seconds if test.startswith(f"tests/{file.split('/')[0]}/")
            }
        for back in range(FAR_BACK):
            if str(line - back) in lines:
                found = set(lines[str(line - back)])
                break
            if self.is_imported(file, line - back):
                break
        seconds = 0.0
        chosen: list[str] = []
        for test in sorted(found, key=lambda test: (distance(test), self.seconds([test]), test)):
            took = self.seconds([test])
            if seconds + took <= most_s:
                seconds += took
                chosen.append(test)
        fastest = sorted(found, key=lambda test: self.seconds([test]))
        return chosen or fastest[:1]

    def seconds(self, tests: Iterable[str]) -> float:
        """Processor seconds that the tests take."""
        return sum(self._seconds.get(test, 0) for test in tests)


def measure(
    copy: Path, modules: Sequence[Module], chosen: Sequence[str], target: Path, jobs: int
) -> None:
    """Run the chosen quick tests once, and record which of them run which lines."""
    covered = target.with_suffix(".modules")
    covered.write_text("\n".join(module.file for module in modules), encoding="utf-8")
    packages = [str(folder.parent) for folder in sorted(copy.glob("*/pocketmq"))]
    packages.append(str(copy / "tests"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants.covering", "-m", QUICK]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:pocketmq", "--loops", "one"]
    parts = [target.with_suffix(f".{number}") for number in range(min(jobs, len(chosen)))]
    running = []
    for number, part in enumerate(parts):
        part.unlink(missing_ok=True)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(packages),
            "COVERING": str(part),
            "COVERED": str(covered),
            "HYPOTHESIS_PROFILE": os.environ.get("HYPOTHESIS_PROFILE") or "ci",
        }
        tests = chosen[number::jobs]
        running.append(subprocess.Popen([*command, *tests], cwd=copy, env=environment))
    for process in running:
        process.wait()
    join_maps(parts, target)


def join_maps(parts: Iterable[Path], target: Path) -> None:
    """Make one map of those that several processes have recorded."""
    seconds: dict[str, float] = {}
    files: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    imported: dict[str, set[int]] = defaultdict(set)
    for part in parts:
        if not part.exists():
            raise SystemExit("the tests could not be run")
        data = json.loads(part.read_text(encoding="utf-8"))
        seconds |= data["seconds"]
        for file, lines in data["files"].items():
            for line, tests in lines.items():
                files[file][line] += tests
        for file, numbers in data["imported"].items():
            imported[file].update(numbers)
    joined = {
        "seconds": seconds,
        "files": files,
        "imported": {file: sorted(numbers) for file, numbers in imported.items()},
    }
    target.write_text(json.dumps(joined), encoding="utf-8")
