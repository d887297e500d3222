"""What the pages of faults say runs a fault is there to be run."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("reliability", "faults-store", "faults-peers", "found", "found-tools", "limits", "mutants")
PAGE = "\n".join((ROOT / "docs" / f"{each}.md").read_text(encoding="utf-8") for each in PAGES)
NAMED = re.compile(r"\b((?:tests|scripts|benchmarks)/[\w/]+\.py)(?:::(\w+))?")
ROWS = {*range(1, 58)}


def test_every_test_and_script_on_the_pages_exists() -> None:
    named = NAMED.findall(PAGE)
    assert len(named) > 40
    for path, function in named:
        assert (ROOT / path).is_file(), path
        if function:
            source = (ROOT / path).read_text(encoding="utf-8")
            assert re.search(rf"def {function}\(", source), f"{path}::{function}"


def test_each_kind_that_was_found_from_outside_has_a_line_with_its_test() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    part = page.partition("## Kinds of fault that were found from outside")[2].partition("\n## ")[0]
    rows = [line for line in part.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 17
    assert [row for row in rows if not NAMED.search(row)] == []


def test_every_row_has_something_that_runs_it() -> None:
    rows = re.findall(r"^\| ([\d, ]+) \| [^|]+ \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert {int(number) for numbers, _ in rows for number in numbers.split(",")} == ROWS
    for numbers, runs in rows:
        assert NAMED.search(runs) or re.search(r"row|above|same", runs), numbers
