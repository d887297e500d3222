"""Every rule that is cited is explained in docs/rules/."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.rule_pages import FOLDER, PAGE_OF_LETTER, TIMERS, RulePageError, page_for, read_rules
from docs.rule_scan import rules_named_in

ROOT = Path(__file__).resolve().parents[2]
CITING = [
    *sorted(ROOT.glob("*/pocketmq/**/*.py")),
    *sorted(ROOT.glob("tests/**/*.py")),
    *sorted(ROOT.glob("tests/mutants/*.toml")),
    *sorted(ROOT.glob("benchmarks/**/*.py")),
    *sorted(ROOT.glob("scripts/**/*.py")),
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("*/README.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("docs/*.toml")),
]
"""Whatever people read; what tests of the scanner make up is left out."""

MADE_UP = ("test_rule_scan.py", "test_rules.py")


def test_each_rule_that_is_cited_is_explained() -> None:
    rules = read_rules()
    missing = [
        f"{path.relative_to(ROOT)} cites {rule}: add it to {page_for(rule)} as docs/rules/README.md"
        " says, or cite another rule"
        for path in CITING
        if path.name not in MADE_UP
        for rule in sorted(rules_named_in(path.read_text(encoding="utf-8")))
        if rule not in rules
    ]
    assert not missing, "\n".join(missing)


def test_each_rule_stands_on_the_page_of_its_letter() -> None:
    for rule in read_rules().values():
        assert page_for(rule.id) == f"docs/rules/{rule.page}", rule.id


_BARE_CODES = re.compile(r"\bcodes \d+.{0,12}|\bthe code \d+|\(code \d+\)")


def test_codes_are_named_wherever_rules_speak_of_them() -> None:
    """SYSTEM_BUSY (2), and not "the code 2": a reader does not know the numbers."""
    bare = [
        f"{page.name}:{number}: {found[0]}"
        for page in sorted(FOLDER.glob("*.md"))
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
        for found in _BARE_CODES.finditer(line)
    ]
    assert not bare, "\n".join(bare)


def test_the_index_of_the_rule_book_names_every_page() -> None:
    index = (FOLDER / "README.md").read_text()
    pages = {*PAGE_OF_LETTER.values(), TIMERS}
    assert pages | {"README.md"} == {page.name for page in FOLDER.iterdir()}
    for page in pages:
        assert f"]({page})" in index, page


def test_rules_that_link_each_other_link_anchors_that_exist() -> None:
    rules = read_rules()
    anchors = {(rule.page, rule.link.split("#")[1]) for rule in rules.values()}
    for page in FOLDER.glob("*.md"):
        for target, anchor in re.findall(r"\]\((\w+\.md)#([\w-]+)\)", page.read_text()):
            assert (target, anchor) in anchors, f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize(
    ("paragraph", "says"),
    [
        ('**<a id="n-1"></a>N-1.** A.\n', "ends without a line"),
        ('**<a id="n1"></a>N-1.** A.\n*Source:* `B`.\n', "the anchor of N-1 is n-1"),
        ('**<a id="n-1"></a>N-1** A.\n*Source:* `B`.\n', "write"),
        ('**<a id="n-1"></a>N-1.** A.\n*Source:* `B`.\n\n' * 2, "already explained"),
    ],
)
def test_a_page_that_cannot_be_read_says_what_to_write(
    tmp_path: Path, paragraph: str, says: str
) -> None:
    (tmp_path / "page.md").write_text(paragraph)
    with pytest.raises(RulePageError, match=says):
        read_rules(tmp_path)


def test_a_rule_has_text_source_and_a_link(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(
        '# P\n\n**<a id="c-25-3"></a>C-25.3.** A,\nb.\n*Source:* `B.c`.\n'
    )
    rule = read_rules(tmp_path)["C-25.3"]
    assert (rule.text, rule.source, rule.link) == ("A, b.", "`B.c`.", "rules/page.md#c-25-3")


ELSEWHERE = [
    (r"\b[Ww]ire (?:sheet )?\d+(?:\.\d+)?\b", "a section of a sheet"),
    (r"\b[Ss]heets? \d|behaviour sheet|wire sheet|\b[Ss]heet (?:section|table)", "a sheet"),
    (r"\(design: |\bissue \d+\b", "a design or an issue"),
    (r"\bA5\b|\bmatrix\b.{0,9}\brow", "a row of a matrix"),
]
"""What was cited once and is not in the repository, as patterns."""


def test_nothing_cites_what_is_not_in_the_repository() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {what}: cite a rule of docs/rules/, or say it in words"
        for path in CITING
        if path.name not in MADE_UP
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for pattern, what in ELSEWHERE
        if re.search(pattern, line)
    ]
    assert not found, "\n".join(found)


def test_each_fault_that_is_cited_is_a_row_of_the_pages_of_faults() -> None:
    page = "".join(each.read_text() for each in sorted((ROOT / "docs").glob("faults-*.md")))
    numbers_of_rows = re.findall(r"^\| (\d[\d, ]*) \|", page, re.MULTILINE)
    rows = {number for numbers in numbers_of_rows for number in numbers.split(", ")}
    missing = [
        f"{path.relative_to(ROOT)} cites fault {number}: docs/faults-*.md have no such row"
        for path in CITING
        if path.name not in MADE_UP
        for numbers in re.findall(r"\bfaults? (\d+(?:(?:, | and | to )\d+)*)", path.read_text())
        for number in re.findall(r"\d+", numbers)
        if number not in rows
    ]
    assert not missing, "\n".join(missing)
