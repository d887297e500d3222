"""Roles that take what was decided for them at the same moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.runtime.files import replaced_together
from pocketmq.runtime.files.replaced_folder import replace_folder
from pocketmq.runtime.files.replaced_together import coming_folder, commit, take_own

NAMES = ("broker-a", "broker-b")


def decided(parent: Path) -> None:
    coming = coming_folder(parent)
    for name in NAMES:
        (coming / name).mkdir()
        (coming / name / "of").write_text("new")
    commit(coming)


def test_two_roles_that_both_find_that_they_were_the_last_both_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided(tmp_path)

    def overtaken(folder: Path, target: Path) -> None:
        replace_folder(folder, target)
        if target.name == NAMES[0]:  # the other one begins and ends before we look what is left
            take_own(tmp_path / NAMES[1])

    monkeypatch.setattr(replaced_together, "replace_folder", overtaken)
    assert "has the data of a snapshot load" in take_own(tmp_path / NAMES[0])
    assert [(tmp_path / name / "of").read_text() for name in NAMES] == ["new", "new"]
    assert sorted(each.name for each in tmp_path.iterdir()) == list(NAMES)


def test_a_role_whose_decision_another_removes_meanwhile_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided(tmp_path)
    take_own(tmp_path / NAMES[0])
    is_empty = replaced_together._is_empty

    def both_are_last(coming: Path) -> bool:
        found = is_empty(coming)
        (tmp_path / replaced_together.JOURNAL).unlink()  # as the other one does
        return found

    monkeypatch.setattr(replaced_together, "_is_empty", both_are_last)
    assert "has the data of a snapshot load" in take_own(tmp_path / NAMES[1])
