"""docs/features.md: each feature that is said to work has a page and a test that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "features.md"
WANTED = 25


class Row(NamedTuple):
    number: str
    feature: str
    state: str
    page: str
    test: str
    lacking: str


ROWS = [
    Row(*(cell.strip() for cell in line.strip("|").split("|")))
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| \d+ ", line)
]


def test_every_feature_has_a_row_and_the_sum_is_theirs() -> None:
    assert [int(row.number) for row in ROWS] == list(range(1, WANTED + 1))
    states = [row.state for row in ROWS]
    assert set(states) <= {"works", "partly", "missing"}
    works, partly, missing = (states.count(each) for each in ("works", "partly", "missing"))
    summed = f"{works} of {WANTED} work, {partly} work partly, {missing} is missing"
    assert summed in PAGE.read_text()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_a_feature_that_works_names_a_page_and_a_test_that_exist(row: Row) -> None:
    if row.state != "works":
        assert row.lacking, "what is not there"
    if row.state == "missing":
        assert (row.page, row.test) == ("", "")
        return
    link = re.fullmatch(r"\[[\w./-]+\]\(([\w./-]+)(?:#[\w-]+)?\)", row.page)
    assert link is not None
    assert (PAGE.parent / link[1]).is_file()
    file, _, name = row.test.strip("`").partition("::")
    assert re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)
