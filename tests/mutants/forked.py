"""Runs tests against mutants of one module after the other, each in a process of its own.

    with Runner(copy) as runner:
        result = runner.run(mutant, "pocketmq.client.routes", ["tests/client/test_routes.py"], 60)

The runner has pytest and its plugins loaded, and nothing of PocketMQ. For each mutant it forks; the
child imports the mutated module in place of the whole one, runs the tests and ends. That saves most
of a second for each mutant, and no mutant leaves anything behind.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import CodeType, ModuleType, TracebackType

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mutants.generate import CodeMutant, mutants_of, mutated

MEMORY_BYTES = 4 << 30
"""What a mutant may take; some fill a list without end."""

IDLE_S = 5.0
"""Real seconds without any progress after which a late child hangs."""

PATIENCE_S = "5"
"""Real seconds for which a broken program's tests wait for what never comes."""


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    verdict: str
    """`caught`, `survived`, `timeout` (caught, too), `no tests`, or `broken` when nothing ran."""
    by: str
    """The test that noticed."""
    seconds: float

    @property
    def is_caught(self) -> bool:
        """Whether a test noticed, or hung."""
        return self.verdict in ("caught", "timeout")


class Runner:
    """A process that has pytest loaded and runs what it is told.

    Args:
        copy: a copy of the code and its tests; nothing in it is written.
        program: what runs in the process, below `tests/mutants` of the copy.
        arguments: its command line.
    """

    def __init__(self, copy: Path, program: str = "forked.py", *arguments: str) -> None:
        packages = [str(folder.parent) for folder in sorted(copy.glob("*/pocketmq"))]
        self._process = subprocess.Popen(
            [sys.executable, str(copy / "tests" / "mutants" / program), *arguments],
            cwd=copy,
            env=os.environ
            | {
                "PYTHONPATH": os.pathsep.join(packages),
                "TEST_PATIENCE_S": PATIENCE_S,
                "PYTHONDONTWRITEBYTECODE": "",
                "HYPOTHESIS_PROFILE": "ci",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def run(
        self, mutant: CodeMutant | None, module: str, tests: Sequence[str], limit_s: float
    ) -> Result:
        """Run tests until one fails; without a mutant, on the code as it is.

        Args:
            mutant: the fault.
            module: dotted name of its module.
            tests: node ids.
            limit_s: real seconds after which it hangs.

        Raises:
            RuntimeError: the runner's process has ended, or the tests fail anyway.
        """
        result = self._ask(mutant, module, tests, limit_s)
        if result.verdict != "broken" or mutant is None:
            return result
        # Nothing can be imported with the fault in it; or nothing can at all any more.
        whole = self._ask(None, module, tests, limit_s)
        if whole.verdict != "survived":
            raise RuntimeError(f"the tests do not run without any fault: {tests[:3]}")
        return Result("caught", "the import", result.seconds)

    def _ask(
        self, mutant: CodeMutant | None, module: str, tests: Sequence[str], limit_s: float
    ) -> Result:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {
            "file": mutant.file if mutant else "",
            "place": mutant.place if mutant else -1,
            "is_edge": mutant.is_edge if mutant else False,
            "module": module,
            "tests": list(tests),
            "limit_s": limit_s,
        }
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the runner ended by itself")
        return Result(**json.loads(line))


# -- in the runner's process ----------------------------------------------------------------------


class _Mutated(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Finds one module, whose code is another than its file's."""

    def __init__(self, module: str, path: Path, code: CodeType) -> None:
        super().__init__(module, str(path))
        self._code = code

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        package = [str(Path(self.path).parent)] if self.path.endswith("__init__.py") else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=package
        )

    def get_code(self, _fullname: str) -> CodeType:
        return self._code


def _serve() -> None:
    import pytest

    for name in ("hypothesis", "msgspec", "structlog", "asyncio", "uvloop", "pytest_asyncio"):
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    for line in sys.stdin:
        job = json.loads(line)
        began = perf_counter()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.setsid()
            os.dup2(null, 2)
            os.close(reading)
            try:
                status = _run(pytest, job, writing)
            except BaseException:  # noqa: BLE001
                status = 1
            os._exit(status)
        os.close(writing)
        hung = child_status(child, began + job["limit_s"])
        with os.fdopen(reading, "rb") as pipe:
            by = pipe.read(2000).decode(errors="replace").strip()
        if hung is None or hung == -signal.SIGXCPU:
            verdict = "timeout"
        elif by:
            verdict = "caught"
        else:
            verdict = {0: "survived", 5: "no tests"}.get(hung, "broken")
        answer = {"verdict": verdict, "by": by, "seconds": round(perf_counter() - began, 2)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def child_status(child: int, deadline: float) -> int | None:
    """A child's exit status, None when it had to be killed; its group ends with it.

    After the deadline it is killed when it waits for something. As long as it goes on it only lacks
    the processor, which others use; `limit_processor` ends it if that has no end.
    """
    watch = os.pidfd_open(child)
    ready: list[int] = []
    try:
        ready, _, _ = select.select([watch], [], [], max(0.0, deadline - perf_counter()))
        before = -1
        while not ready and (used := _processor_ticks(child)) > before:
            before = used
            ready, _, _ = select.select([watch], [], [], IDLE_S)
    finally:
        os.close(watch)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ready:
        return None
    return os.waitstatus_to_exitcode(status)


def _processor_ticks(process: int) -> int:
    """Processor time that a process has used; a bit more as long as it could use some."""
    text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    state, *fields = text.rpartition(")")[2].split()
    return int(fields[10]) + int(fields[11]) + (state == "R")


def limit_processor(limit_s: float) -> None:
    """Let this process run for an eighth of its real seconds, and some for imports."""
    processor_s = int(limit_s / 8) + 6
    resource.setrlimit(resource.RLIMIT_CPU, (processor_s, processor_s + 5))


class First:
    """Tells which test failed first, or could not even be imported."""

    def __init__(self, writing: int) -> None:
        self._writing = writing
        self.has_failed = False

    def pytest_collectreport(self, report: object) -> None:
        self.pytest_runtest_logreport(report)

    def pytest_runtest_logreport(self, report: object) -> None:
        if getattr(report, "failed", False):
            self.has_failed = True
            os.write(self._writing, f"{getattr(report, 'nodeid', '')}\n".encode())


def _run(pytest: ModuleType, job: dict[str, object], writing: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_processor(float(str(job["limit_s"])))
    if job["file"]:
        path = Path(str(job["file"])).resolve()
        source = path.read_text(encoding="utf-8")
        found = mutants_of(source, str(job["file"]), is_edge=bool(job["is_edge"]))
        mutant = found[int(str(job["place"]))]
        code = compile(mutated(source, mutant), str(path), "exec")
        sys.meta_path.insert(0, _Mutated(str(job["module"]), path, code))
    tests = job["tests"]
    assert isinstance(tests, list)
    options = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += ["-p", "no:pocketmq"]  # our own plugin would import what is to be mutated
    options += ["-p", "no:standstill"]  # a process for each mutant
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # its plugins are loaded
    status = pytest.main([*options, *tests], plugins=[First(writing)])
    return int(status)


if __name__ == "__main__":
    _serve()
