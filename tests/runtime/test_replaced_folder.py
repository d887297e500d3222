"""A folder in place of another: after a kill at any step the old or the new one is whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pocketmq.runtime.replaced_folder import finish_replacements, remove_folder, replace_folder

FILES = ("commitlog/0", "config/topics.json")


class KilledError(BaseException):
    """Nothing of the process runs after it."""


def fill(folder: Path, text: str) -> None:
    for file in FILES:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)


def texts(folder: Path) -> list[str]:
    return [(folder / file).read_text() for file in FILES]


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count renames and removals of files and folders; at this one, nothing is done any more."""
    steps = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps >= step:
                raise KilledError
            return real(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink", "rmdir", "fsync"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    monkeypatch.setattr(Path, "rename", counted(Path.rename))


def test_a_kill_at_any_step_leaves_the_old_or_the_new_folder_whole(tmp_path: Path) -> None:
    found = []
    for step in range(1, 40):
        parent = tmp_path / str(step)
        fill(parent / "broker-a", "old")
        fill(parent / "coming", "new")
        with pytest.MonkeyPatch.context() as patch:
            kill_at(step, patch)
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


def test_a_removal_that_was_cut_off_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "broker-a", "old")
    monkeypatch.setattr(shutil, "rmtree", lambda *_args, **_kwargs: None)
    remove_folder(tmp_path / "broker-a")
    monkeypatch.undo()
    assert finish_replacements(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
