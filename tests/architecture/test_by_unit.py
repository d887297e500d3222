"""What workers are told by the scheduler of `make test`; test_units.py has it with processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from support.by_unit import ByUnit


class Config:
    """As far as the scheduler asks: how many workers there are."""

    class option:
        loadscopereorder = False

    def getvalue(self, _name: str) -> list[str]:
        return ["2*popen"]


class Gateway:
    id = "gw"


class Worker:
    """One that notes what it is told, and runs a test as xdist's do: when it knows what follows."""

    gateway = Gateway()

    def __init__(self) -> None:
        self.tests: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        assert not self.shutting_down, "it would not look at them"
        self.tests += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def may_run(self) -> bool:
        return len(self.tests) > 1 or bool(self.tests and self.shutting_down)


class Run:
    """Tests of three workers: two, and one that replaces the first."""

    def __init__(self, *tests: str) -> None:
        self.tests = list(tests)
        self.scheduler = ByUnit(Config())
        self.done: list[str] = []

    def begin(self, *workers: Worker) -> None:
        for worker in workers:
            self.scheduler.add_node(_as_node(worker))
        for worker in workers:
            self.scheduler.add_node_collection(_as_node(worker), self.tests)
        self.scheduler.schedule()

    def step(self, worker: Worker) -> None:
        index = worker.tests.pop(0)
        self.done.append(self.tests[index])
        self.scheduler.mark_test_complete(_as_node(worker), index)

    def finish(self, worker: Worker) -> None:
        while worker.may_run:
            self.step(worker)

    def dies(self, worker: Worker) -> str | None:
        return self.scheduler.remove_node(_as_node(worker))


def _as_node(worker: Worker) -> Any:
    return worker


def test_what_a_dead_worker_leaves_is_run_when_all_others_have_been_told_to_end() -> None:
    # Its replacement got the one test that was left of a unit, and waited for a second: the other
    # unit that was left was handed out at the end of a test, and none ended any more.
    run = Run(*(f"test_{unit}.py::test_it[{number}]" for unit in range(4) for number in range(3)))
    dying, other, replacement = Worker(), Worker(), Worker()
    run.begin(dying, other)
    run.step(dying)
    run.finish(other)
    assert other.shutting_down
    assert not other.tests
    assert run.dies(dying) == "test_0.py::test_it[1]"
    run.begin(replacement)
    run.finish(replacement)
    assert sorted([*run.done, "test_0.py::test_it[1]"]) == run.tests
    assert replacement.shutting_down


def test_the_last_test_that_is_left_waits_for_no_other_worker() -> None:
    run = Run("test_0.py::test_it[0]", "test_0.py::test_it[1]", "test_1.py::test_it")
    dying, other, replacement = Worker(), Worker(), Worker()
    run.begin(dying, other)
    assert run.dies(dying) == "test_0.py::test_it[0]"
    run.begin(replacement)
    assert other.may_run
    assert replacement.may_run


def test_a_unit_whose_tests_are_done_is_not_handed_out_again() -> None:
    run = Run(*(f"test_{unit}.py::test_it[{number}]" for unit in range(4) for number in range(3)))
    dying, other, replacement = Worker(), Worker(), Worker()
    run.begin(dying, other)
    for _ in range(4):  # all of the first unit, one of the next
        run.step(dying)
    assert run.dies(dying) == run.tests[dying.tests[0]]
    run.begin(replacement)
    for worker in (replacement, other, replacement):
        run.finish(worker)
    assert len(run.done) == len(set(run.done)) == len(run.tests) - 1
