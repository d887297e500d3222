"""Each behaviour has a line that can be broken, and the quickest of them are broken here."""

from __future__ import annotations

import pytest
from docs.behaviour_page import read_rows
from docs.rule_scan import scan

from mutants.run import Mutant, problem_with, read_mutants, run

ROWS = {row.number: row for row in read_rows()}


def test_every_behaviour_has_a_mutant_but_those_that_come_later() -> None:
    with_mutant = {mutant.row for mutant in read_mutants()} - {0}
    assert with_mutant == {row.number for row in ROWS.values() if not row.later}


def test_every_mutant_changes_one_line_of_code_that_cites_its_rule() -> None:
    found = scan()
    problems = [problem_with(mutant, ROWS.get(mutant.row), found) for mutant in read_mutants()]
    assert [problem for problem in problems if problem] == []


def test_a_line_is_found_without_its_indentation_and_told_from_its_equals() -> None:
    text = "if x:\n    y = 1\nelse:\n    y = 1\n"
    assert Mutant(1, "f", "if x:", "if not x:").applied_to(text).startswith("if not x:\n")
    with pytest.raises(ValueError, match="2 lines"):
        Mutant(1, "f", "y = 1", "y = 2").applied_to(text)
    second = Mutant(1, "f", "y = 1", "y = 2", nth=2)
    assert second.applied_to(text) == "if x:\n    y = 1\nelse:\n    y = 2\n"
    with pytest.raises(ValueError, match="0 lines"):
        Mutant(1, "f", "z = 1", "z = 2").applied_to(text)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sample_of_ten_mutants_is_caught() -> None:
    sample = [mutant for mutant in read_mutants() if mutant.sample]
    assert len(sample) == 10
    missed = [outcome for outcome in run(sample) if not outcome.is_caught]
    assert not missed, [(outcome.mutant, outcome.output[-500:]) for outcome in missed]
