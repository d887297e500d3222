"""The scanner behind docs/behaviour.md reads citations as people do."""

from __future__ import annotations

import pytest
from docs.behaviour_page import gaps_of, read_rows
from docs.rule_scan import (
    Citations,
    Place,
    Test,
    behaviours_in,
    marks_in,
    rules_in,
    scan,
    test_texts,
)

LATER: set[int] = set()
"""Replication and failover."""


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("held at the broker (B-70)", {"B-70"}),
        ("C-25.3, then A-1", {"C-25", "C-25.3", "A-1"}),
        ("C-50..C-52 and S-1 to S-3", {"C-50", "C-51", "C-52", "S-1", "S-2", "S-3"}),
        ("L-1a of T-3", {"L-1", "L-1a", "T-3"}),
        ("UTF-8, SHA-256, RIP-80, 2023-11-20, B-A, A-1b2", set()),
    ],
)
def test_a_citation_is_an_id_of_the_sheet_or_a_range_of_them(text: str, rules: set[str]) -> None:
    assert rules_in(text) == rules


def test_behaviours_are_cited_by_their_numbers() -> None:
    assert behaviours_in("# behaviour 24: C-33") == {24}
    assert behaviours_in("# behaviours 11, 32 and 61: A-10") == {11, 32, 61}
    assert behaviours_in("the behaviour sheet 5") == set()


def test_a_citation_counts_for_the_test_it_stands_in_or_above() -> None:
    source = (
        '"""N-1"""\n\n# B-1\n@mark\ndef test_one():  # B-2\n    pass\n\n\ndef test_two(): ...\n'
    )
    texts = dict(test_texts(source))
    assert rules_in(texts["test_one"]) == {"B-1", "B-2"}
    assert rules_in(texts["test_two"]) == set()


def test_a_mark_belongs_to_what_it_stands_above() -> None:
    source = (
        "# behaviour 9\nLIMIT = 1\n\nclass A:\n    # behaviours 1 and 2\n    # why\n    @mark\n"
        "    def run(self):  # behaviour 3\n        # behaviour 4\n        go()\n"
    )
    assert dict(marks_in(source)) == {"LIMIT": {9}, "A.run": {1, 2}}


def test_a_gap_says_what_is_missing() -> None:
    row = next(row for row in read_rows() if row.number == 1)
    found = Citations()
    assert gaps_of(row, found) == [
        "not marked in code",
        "no test",
        "C-35 is cited by no code",
        "C-35 is cited by no test",
    ]
    found.places[1].append(Place("client/pocketmq/client/x.py", "X.run"))
    found.code["C-35"].add("client/pocketmq/client/x.py")
    test = Test("tests/test_x.py", "test_x")
    found.tests["C-35"].add(test)
    found.proofs[1].add(test)
    assert gaps_of(row, found) == []


def test_there_are_70_behaviours_in_order() -> None:
    assert [row.number for row in read_rows()] == list(range(1, 71))
    assert {row.number for row in read_rows() if row.later} == LATER


def test_each_behaviour_is_marked_once_in_code() -> None:
    places = scan().places
    wrong = {
        row.number: [f"{place.path}: {place.name}" for place in places.get(row.number, ())]
        for row in read_rows()
        if len(places.get(row.number, ())) != (0 if row.later else 1)
    }
    assert not wrong, "write `# behaviour <number>` right above the one place where it is done"


def test_a_test_that_claims_a_behaviour_cites_one_of_its_rules() -> None:
    found = scan()
    for row in read_rows():
        for test in found.proofs.get(row.number, ()):
            assert any(test in found.tests[rule] for rule in row.rules), (row.number, test)
