"""Who looks for a file finds it in the README of its folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.generate import PORTIONS

ROOT = Path(__file__).resolve().parents[2]

IN_EVERY_SUBJECT = {"assembly"}
"""A file whose name says what it is: broker/README.md tells of it once."""

EXPLAINED_ELSEWHERE = {"broker": {"store", "options"}}
"""docs/store.md goes through the store; the options of a subject have its name."""


def untold(role: str, page: str) -> list[str]:
    """Files of a folder of which its README says nothing."""
    names = set(re.findall(r"(\w+)\.py", page))
    whole = EXPLAINED_ELSEWHERE.get(role)
    if whole is None:  # a row for `demo/` tells of all that is in it
        whole = set(re.findall(r"`(?:\w+/)*(\w+)/`", page))
    package = ROOT / role / "pocketmq" / role
    return [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if not path.stem.startswith("__")
        and path.stem not in names | IN_EVERY_SUBJECT
        and whole.isdisjoint(path.relative_to(package).parts[:-1])
    ]


@pytest.mark.parametrize("role", PORTIONS)
def test_the_readme_of_a_folder_tells_of_each_file(role: str) -> None:
    page = (ROOT / role / "README.md").read_text(encoding="utf-8")
    missing = untold(role, page)
    assert not missing, f"say in {role}/README.md, in its table of files, what these are for"
