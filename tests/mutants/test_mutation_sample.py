"""A small sample of what `scripts/mutate.py` does at night: faults in pure cores are noticed."""

from __future__ import annotations

import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from mutants.forked import Runner
from mutants.generate import CodeMutant, mutants_of, mutated

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")

SAMPLED = {
    "pocketmq.broker.delays.delay": "test_delay.py",
    "pocketmq.broker.locks.queue_locks": "test_queue_locks.py",
    "pocketmq.broker.timers.wheel": "test_timer_wheel.py",
    "pocketmq.client.pulling.process_queue": "test_process_queue.py",
    "pocketmq.nameserver.liveness": "test_liveness.py",
    "pocketmq.protocol.stored.record_batch": "test_record_batch.py",
}
"""Module -> the file of its own tests, wherever that lies."""

IN_CI = ["pocketmq.broker.locks.queue_locks", "pocketmq.nameserver.liveness"]
EACH = 4
GOAL = 0.75


def sample_of(module: str) -> list[CodeMutant]:
    """Some of a module's mutants, spread over its lines."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).resolve()
    with EQUIVALENT.open("rb") as known_file:
        known = {each["name"] for each in tomllib.load(known_file)["mutant"]}
    name = file.relative_to(ROOT).as_posix()
    found = [m for m in mutants_of(file.read_text(encoding="utf-8"), name) if m.name not in known]
    return found[EACH :: max(1, len(found) // EACH)][:EACH]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "modules", [IN_CI, pytest.param(list(SAMPLED), marks=pytest.mark.nightly)], ids=["two", "all"]
)
def test_most_faults_are_noticed_by_the_modules_own_tests_alone(modules: list[str]) -> None:
    caught, survived = 0, []
    with Runner(ROOT) as runner:
        for module in modules:
            [tests] = (ROOT / "tests").rglob(SAMPLED[module])
            tests_of = [tests.relative_to(ROOT).as_posix()]
            assert runner.run(None, module, tests_of, 600).verdict == "survived"
            for mutant in sample_of(module):
                if runner.run(mutant, module, tests_of, 600).is_caught:
                    caught += 1
                else:
                    survived.append(f"{mutant.line} {mutant.name}")
    assert caught >= GOAL * (caught + len(survived)), survived


# -- what makes the faults ------------------------------------------------------------------------


def changes(source: str) -> list[str]:
    return [f"{mutant.old} -> {mutant.new}" for mutant in mutants_of(source, "f.py")]


def test_a_fault_changes_one_place() -> None:
    source = (
        "def f(a, b=1):\n"
        '    """Text."""\n'
        "    if a < b and not a:\n"
        "        self.x = a + 2\n"
        "        log.info('x', n=1)\n"
        "    return a\n"
    )
    assert changes(source) == [
        "1 -> 2",
        "a < b and (not a) -> a < b or not a",
        "a < b -> a <= b",
        "not a -> not not a",
        "self.x = a + 2 -> pass",
        "a + 2 -> a - 2",
        "a + 2 -> a + 3",
        "return a -> return None",
    ]


def test_equal_faults_have_names_of_their_own() -> None:
    source = "def f(a):\n    g(1)\n    g(1)\n"
    names = [mutant.name for mutant in mutants_of(source, "f.py")]
    assert len(names) == len(set(names)) == 4
    assert names[0] == "f.py::f::g(1) -> pass#0"


def test_what_is_left_alone() -> None:
    source = (
        "import x\n"
        "__slots__ = ('a',)\n"
        "class P(Protocol):\n"
        "    def f(self, a=1): ...\n"
        "def __repr__(self): return 1\n"
        "def g():\n"
        "    return False\n"
    )
    assert changes(source) == ["return False -> return True"]


def test_every_fault_of_a_module_can_be_compiled() -> None:
    import ast

    file = Path(__file__).with_name("generate.py")
    source = file.read_text(encoding="utf-8")
    for mutant in mutants_of(source, file.name)[::5]:
        tree = mutated(source, mutant)
        compile(tree, "f.py", "exec")
        assert ast.unparse(tree) != ast.unparse(ast.parse(source))
