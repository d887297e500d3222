"""Plants faults at the edges, as by hand, and shows that tests of their subject notice.

    python tests/mutants/planted.py                 all of them: some minutes
    python tests/mutants/planted.py timers "pop 3"  those whose name holds one of these

A fault of planted.toml replaces a piece of text, which stands in its file once, by another one:
such faults as `edges.py` does not generate. It names the test files that have to notice. One
process collects these tests, and forks for each fault, as `scripts/mutate.py` does it. Before the
first fault of some tests they run without one, and all ends if one fails: it would fail with each
fault, and notice none. A fault that nobody can notice says so, with the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from mutants import collected  # noqa: E402 - the folders first
from mutants.lines import QUICK  # noqa: E402
from mutants.outside import replace  # noqa: E402
from mutants.run import copy_repository  # noqa: E402

DATA = Path(__file__).with_name("planted.toml")
LIMIT_S = 160.0
"""Real seconds after which tests hang, and eight times the processor seconds that they may take."""


@dataclass(frozen=True)
class Planted:
    """One fault."""

    name: str
    """Its subject, and a number."""
    file: str
    old: str
    new: str
    tests: list[str] = field(hash=False)
    """Files and folders."""
    same: str = ""
    """Why nobody can notice it, if that is so."""

    @property
    def module(self) -> str:
        """Dotted name of what it breaks."""
        return ".".join(Path(self.file).with_suffix("").parts[1:])

    def applied_to(self, text: str) -> str:
        """The file's text with the fault in it, in as many lines.

        Raises:
            ValueError: the text is not there, or not once; or the new one has more lines.
        """
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: its text stands in {self.file} {count} times")
        fewer = self.old.count("\n") - self.new.count("\n")
        if fewer < 0:
            raise ValueError(f"{self.name}: the new text has more lines than the old one")
        # Functions are found by their first lines, so those behind the fault must not move.
        changed = text.replace(self.old, self.new)
        end = changed.find("\n", text.index(self.old) + len(self.new) - 1)
        return changed[:end] + "\n" * fewer + changed[end:]

    def test_files(self, root: Path) -> list[str]:
        """The files of its tests."""
        found = [
            path
            for name in self.tests
            for path in ([root / name] if name.endswith(".py") else (root / name).glob("test_*.py"))
        ]
        return sorted(path.relative_to(root).as_posix() for path in found)


def read_planted(wanted: Iterable[str] = ()) -> list[Planted]:
    """All faults, or those whose name holds one of some words."""
    words = list(wanted)
    with DATA.open("rb") as file:
        found = [Planted(**entry) for entry in tomllib.load(file)["fault"]]
    return [each for each in found if not words or any(word in each.name for word in words)]


class _Server(collected._Serving):
    """As for generated faults, but a job brings the text."""

    def _break(self, job: dict[str, object]) -> bool:
        if not job["file"]:
            return False
        path = Path(str(job["file"])).resolve()
        broken = _compiled(str(job["text"]), path)
        changed = collected.changed_functions(_compiled(path.read_text("utf-8"), path), broken)
        if changed is None:
            return replace(sys.modules[str(job["module"])], broken)
        is_found = False
        for function in self._functions[str(path)]:
            code = function.__code__
            new = changed.get((code.co_qualname, code.co_firstlineno))
            if new is not None:
                function.__code__ = new
                is_found = True
        return is_found


def _compiled(source: str, path: Path) -> CodeType:
    return compile(source, str(path), "exec", dont_inherit=True)


def try_out(faults: Sequence[Planted], copy: Path) -> list[str]:
    """Run the tests of some faults; the names of those that are neither noticed nor the same.

    Raises:
        RuntimeError: The tests of a fault cannot be collected, or fail without it.
    """
    packages = [str(folder.parent) for folder in sorted(copy.glob("*/pocketmq"))]
    modules = sorted({each.module for each in faults})
    tests = sorted({file for each in faults for file in each.test_files(copy)})
    missed = []
    sound: set[tuple[str, ...]] = set()
    with subprocess.Popen(
        [sys.executable, __file__, "--serve", json.dumps([modules, tests, QUICK])],
        cwd=copy,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join(packages),
            "TEST_PATIENCE_S": "5",
            "PYTHONDONTWRITEBYTECODE": "",
            "HYPOTHESIS_PROFILE": "ci",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for fault in faults:
            try:
                text = fault.applied_to((copy / fault.file).read_text(encoding="utf-8"))
            except ValueError as exc:
                print(f"{fault.name:20} STALE    {exc}", flush=True)
                missed.append(fault.name)
                continue
            files = fault.test_files(copy)
            if tuple(files) not in sound:
                found = _answer(process, {"file": "", "tests": files})
                if found["verdict"] != "survived":
                    failed = found["by"] or ", ".join(files)
                    raise RuntimeError(f"{fault.name}: {failed} fails or hangs without a fault")
                sound.add(tuple(files))
            job = {"file": fault.file, "text": text, "module": fault.module, "tests": files}
            found = _answer(process, job)
            is_caught = found["verdict"] in ("caught", "timeout")
            verdict = found["verdict"] if is_caught else "the same" if fault.same else "MISSED"
            seconds = found["seconds"]
            print(f"{fault.name:20} {verdict:8} {seconds:6.1f} s  {found['by']}", flush=True)
            if not is_caught and not fault.same:
                missed.append(fault.name)
    return missed


def _answer(process: subprocess.Popen[str], job: dict[str, Any]) -> dict[str, Any]:
    """What the process says of a job."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(job | {"is_edge": False, "limit_s": LIMIT_S}) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError("the tests cannot be collected")
    found: dict[str, Any] = json.loads(line)
    return found


def main() -> int:
    """Plant the faults; 1 when one was not noticed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="parts of names; all by default")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        collected._Serving = _Server  # type: ignore[misc]
        collected._collect_and_serve(*json.loads(options.serve))
        return 0
    faults = read_planted(options.names)
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        missed = try_out(faults, copy_repository(Path(folder) / "copy"))
    print(f"{len(faults) - len(missed)} of {len(faults)} noticed or the same; missed: {missed}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
