"""A folder in place of another: after a kill at any step the old or the new one is whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pocketmq.runtime.files.replaced_folder import finish_replacements, replace_folder
from support.kills import KilledError, kill_at

FILES = ("commitlog/0", "config/topics.json")


def fill(folder: Path, text: str) -> None:
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)


def texts(folder: Path) -> list[str]:
    return [(folder / file).read_text() for file in FILES]


def test_a_kill_at_any_step_leaves_the_old_or_the_new_folder_whole(tmp_path: Path) -> None:
    found = []
    for step in range(1, 60):
        parent = tmp_path / str(step)
        fill(parent / "broker-a", "old")
        fill(parent / "coming", "new")
        with pytest.MonkeyPatch.context() as patch:
            kill_at(step, patch, parent)
            try:
                replace_folder(parent / "coming", parent / "broker-a")
            except KilledError:
                pass
            else:
                break
        finish_replacements(parent)
        found.append(texts(parent / "broker-a"))
        assert found[-1] in (["old", "old"], ["new", "new"])
        assert not list(parent.glob(".*"))
    else:
        pytest.fail("it was never done")
    assert ["old", "old"] in found
    assert ["new", "new"] in found


def test_a_start_says_which_folder_has_its_old_files_again(tmp_path: Path) -> None:
    fill(tmp_path / ".broker-a.replaced", "old")
    assert finish_replacements(tmp_path) == ["broker-a"]
    assert texts(tmp_path / "broker-a") == ["old", "old"]
    assert finish_replacements(tmp_path) == []


def test_a_folder_that_cannot_come_leaves_the_old_one(tmp_path: Path) -> None:
    fill(tmp_path / "broker-a", "old")
    with pytest.raises(FileNotFoundError):
        replace_folder(tmp_path / "missing", tmp_path / "broker-a")
    assert texts(tmp_path / "broker-a") == ["old", "old"]


def test_a_kill_leaves_what_is_beside_its_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    with pytest.MonkeyPatch.context() as patch, (tmp_path / "beside").open("w") as beside:
        kill_at(1, patch, tmp_path / "killed")
        os.fsync(beside.fileno())
        (tmp_path / "beside").unlink()
        with pytest.raises(KilledError):
            (tmp_path / "killed" / "new").mkdir()
