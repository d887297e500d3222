"""What `scripts/mutate.py --edges` makes, and that a sample of it is noticed."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from mutants.chosen import subject_tests
from mutants.edges import GUARDS
from mutants.forked import Runner
from mutants.generate import CodeMutant, mutants_of, mutated
from mutants.lines import edge_modules, pure_modules

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent-edges.toml")

SAMPLED = {
    "pocketmq.controller.outlet": "test_outlet.py",
    "pocketmq.controller.journal_file": "test_torn_journals.py",
    "pocketmq.nameserver.server": "test_departures.py",
    "pocketmq.client.producer.transaction": "test_unsafe_halves.py",
}
"""Module -> the file of tests that is tried, wherever that lies."""

PLANTED = {
    "pocketmq.controller.outlet": "if step.write is not None: ... -> pass",
    "pocketmq.controller.journal_file": "if is_torn: ... -> pass",
    "pocketmq.nameserver.server": "broker.channel.close() -> pass",
    "pocketmq.client.producer.transaction": (
        "if sent.status is SendStatus.SEND_OK else: ... -> pass"
    ),
}
"""Module -> the fault of it that is tried."""


def changes(source: str) -> list[str]:
    found = mutants_of(source, "f.py", is_edge=True)
    for each in found:
        broken = ast.unparse(mutated(source, each))
        compile(broken, "f.py", "exec")
        assert broken != ast.unparse(ast.parse(source)), each
    return [f"{each.old} -> {each.new}" for each in found]


def test_an_effect_is_left_out_or_changes_places_with_its_neighbour() -> None:
    source = (
        "async def f(self):\n"
        "    await self.log.sync()\n"
        "    self.end = 3\n"
        "    self.latch.wakeup()\n"
        "    self.count(1)\n"
        "    log.info('x')\n"
        "    x = 4\n"
    )
    assert changes(source) == [
        "await self.log.sync() -> pass",
        "await self.log.sync(); self.end = 3 -> self.end = 3; await self.log.sync()",
        "self.end = 3; self.latch.wakeup() -> self.latch.wakeup(); self.end = 3",
        "self.latch.wakeup() -> pass",
        "self.latch.wakeup(); self.count(1) -> self.count(1); self.latch.wakeup()",
    ]


def test_what_is_forgotten_in_memory_may_be_in_any_order() -> None:
    source = "def f(self):\n    self.ops.forget()\n    self.ahead.clear()\n"
    assert changes(source) == ["self.ops.forget() -> pass", "self.ahead.clear() -> pass"]


def test_what_is_sent_comes_before_what_is_written() -> None:
    source = (
        "async def f(self):\n"
        "    if writes:\n"
        "        await self.write(writes)\n"
        "    for each in messages:\n"
        "        self.send(each)\n"
    )
    swapped = "if writes: ...; for each in messages: ..."
    assert any(each.startswith(swapped) for each in changes(source))


def test_branches_are_left_out_and_those_that_only_log_are_not() -> None:
    source = (
        "def f(x):\n"
        "    if x.torn:\n"
        "        return 1\n"
        "    if x.odd:\n"
        "        log.info('odd')\n"
        "    elif x.even:\n"
        "        x.y = 1\n"
        "    else:\n"
        "        x.y = 2\n"
        "    match x:\n"
        "        case 1:\n"
        "            return 2\n"
    )
    assert changes(source) == [
        "if x.torn: ... -> pass",
        "if x.even: ... -> pass",
        "if x.even else: ... -> pass",
        "case 1: ... -> pass",
    ]


def test_bounds_checks_counters_and_finally() -> None:
    source = (
        "def f(x):\n"
        "    if x.epoch == 3 and x.size < 5:\n"
        "        x.waiting -= 1\n"
        "    try:\n"
        "        x.waiting += 1\n"
        "    finally:\n"
        "        x.lock.release()\n"
    )
    assert changes(source) == [
        "if x.epoch == 3 and x.size < 5: ... -> pass",
        "x.waiting -= 1 -> pass",
        "x.epoch == 3 and x.size < 5 -> True and x.size < 5",
        "x.size < 5 -> x.size <= 5",
        "finally: x.lock.release() -> pass",
        "x.lock.release() -> pass",
    ]


@pytest.mark.parametrize(
    ("text", "is_guard"),
    [("self._epoch == epoch", True), ("raft.role is LEADER", True), ("self.is_slave", True),
     ("old_term < term", True), ("x.determined", False), ("size > 3", False)],
)  # fmt: skip
def test_checks_are_known_by_their_names(text: str, is_guard: bool) -> None:
    assert bool(GUARDS.search(text)) is is_guard


def test_what_is_left_alone() -> None:
    source = (
        "import x\n"
        "x.close()\n"
        "class P(Protocol):\n"
        "    def f(self):\n"
        "        self.close()\n"
        "def __repr__(self):\n"
        "    self.close()\n"
        "if TYPE_CHECKING:\n"
        "    x.close()\n"
    )
    assert changes(source) == []


def test_equal_faults_have_names_of_their_own() -> None:
    source = "def f(a):\n    a.close()\n    a.count()\n    a.close()\n"
    names = [each.name for each in mutants_of(source, "f.py", is_edge=True)]
    assert len(names) == len(set(names))


def test_the_edges_are_all_modules_of_four_roles_that_are_not_pure() -> None:
    edges = {module.file for module in edge_modules(ROOT, [])}
    assert not edges & {module.file for module in pure_modules(ROOT, [])}
    assert "broker/pocketmq/broker/transactions/end_processor.py" in edges
    assert {file.split("/")[0] for file in edges} == {
        "broker",
        "controller",
        "nameserver",
        "client",
    }


def test_modules_are_tried_in_the_order_in_which_they_are_named() -> None:
    found = [module.name for module in edge_modules(ROOT, ["controller.consensus", "pop.service"])]
    assert found[0] == "pocketmq.controller.consensus"
    assert all("pop.service" in name for name in found[1:])


def test_the_tests_of_a_subject_are_those_beside_it_and_those_that_name_it() -> None:
    broker = subject_tests(ROOT, ["pocketmq.broker.transactions.end_processor"])
    assert "tests/broker/transactions/test_transactions.py" in broker
    assert all(name.startswith("tests/broker/") for name in broker)
    controller = subject_tests(ROOT, ["pocketmq.controller.consensus"])
    assert "tests/controller/test_written_first.py" in controller
    assert all(name.startswith("tests/controller/") for name in controller)


def test_every_verdict_names_a_fault_that_there_is_and_a_reason() -> None:
    with EQUIVALENT.open("rb") as file:
        verdicts = tomllib.load(file).get("mutant", [])
    known = {
        each.name
        for module in edge_modules(ROOT, [])
        if any(each["name"].startswith(f"{module.file}::") for each in verdicts)
        for each in mutants_of(module.source, module.file, is_edge=True)
    }
    assert [each["name"] for each in verdicts if each["name"] not in known] == []
    assert all(each["why"] for each in verdicts)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("module", SAMPLED)
def test_a_fault_at_an_edge_is_noticed(module: str) -> None:
    [tests] = (ROOT / "tests").rglob(SAMPLED[module])
    [mutant] = [each for each in faults(module) if f"{each.old} -> {each.new}" == PLANTED[module]]
    with Runner(ROOT) as runner:
        assert runner.run(mutant, module, [tests.relative_to(ROOT).as_posix()], 300).is_caught


def faults(module: str) -> list[CodeMutant]:
    [found] = [each for each in edge_modules(ROOT, [module]) if each.name == module]
    return mutants_of(found.source, found.file, is_edge=True)
