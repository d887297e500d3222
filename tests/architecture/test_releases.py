"""What rules say of a release was read at that release, not at a development head.

A limit of one release that was applied to all (groups of at most 120 characters, which came with
5.4, in profile 5.3) is what this keeps from coming back.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs.rule_pages import Rule, anchor_of, read_rules

ROOT = Path(__file__).resolve().parents[2]
_MARK = re.compile(r" \[(\d[\d. ]*)\]$")
_NAMES_A_RELEASE = re.compile(r"\b4\.9|\b5\.x|\b5\.\d")
RELEASES = ("4.9.8", "5.3.3", "5.5.0")

NEWER_PAGES = ("pop.md", "timers.md")
"""Of what no 4.9 has; their first lines say so."""

NOT_READ = {
    "O-33": "of the exporter, which is no part of RocketMQ's releases",
}
"""Rules that name a release and were not checked at all of them, and why."""


def releases_of(rule: Rule) -> tuple[str, ...]:
    found = _MARK.search(rule.source)
    return tuple(found[1].split()) if found else ()


def test_what_a_rule_says_of_a_release_was_read_there() -> None:
    rules = read_rules()
    missing = []
    for rule in rules.values():
        if not _NAMES_A_RELEASE.search(rule.text) or rule.id in NOT_READ:
            continue
        wanted = RELEASES if "4.9" in rule.text else RELEASES[1:]
        if not set(wanted) <= set(releases_of(rule)):
            missing.append(f"{rule.page}: {rule.id} was read at {releases_of(rule)}, not {wanted}")
    assert not missing, "\n".join(missing)


def test_what_a_rule_says_without_a_release_holds_for_4_9_8() -> None:
    newer = "".join(
        section
        for page in (ROOT / "docs" / "rules").glob("*.md")
        for section in page.read_text(encoding="utf-8").split("\n## ")
        if re.search(r"\(5\.\w\)$", section.partition("\n")[0])
    )
    missing = [
        rule.id
        for rule in read_rules().values()
        if releases_of(rule)
        and "4.9.8" not in releases_of(rule)
        and rule.page not in NEWER_PAGES
        and f'"{anchor_of(rule.id)}"' not in newer
        and not _NAMES_A_RELEASE.search(rule.text)
    ]
    assert not missing, f"{missing}: read them at 4.9.8, or let them say 5.x"


def test_marks_name_releases_that_are_read() -> None:
    for rule in read_rules().values():
        assert set(releases_of(rule)) <= set(RELEASES), rule.id
        assert list(releases_of(rule)) == sorted(releases_of(rule)), rule.id


def test_the_rules_that_were_not_read_are_there_and_speak_of_releases() -> None:
    rules = read_rules()
    for name in NOT_READ:
        assert _NAMES_A_RELEASE.search(rules[name].text), name
        assert not releases_of(rules[name]), f"{name} is read: take it out of NOT_READ"


def test_nothing_is_marked_as_read_at_a_development_head() -> None:
    mark = f"[{'H'}]"
    marked = [
        str(path.relative_to(ROOT))
        for pattern in ("*/pocketmq/**/*.py", "tests/**/*.py", "docs/**/*.md", "*.md")
        for path in ROOT.glob(pattern)
        if mark in path.read_text(encoding="utf-8")
    ]
    assert not marked, f"{marked} say {mark}: read it at {', '.join(RELEASES)}"
