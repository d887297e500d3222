"""A process that is killed at some step of its work in the file system."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class KilledError(BaseException):
    """Nothing of the process runs after it."""


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Count renames, syncs, removals and new folders; from this one on nothing is done any more.

    Only what happens inside the folder counts and fails. A fixture of the whole run may have a
    broker in this process, whose threads sync its own files meanwhile: that one is not killed.
    """
    steps = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            if not _place(args[0], kwargs.get("dir_fd")).is_relative_to(folder):
                return real(*args, **kwargs)
            steps += 1
            if steps >= step:
                raise KilledError
            return real(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink", "rmdir", "fsync", "mkdir"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    for name in ("rename", "unlink", "write_text"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))


def _place(target: int | str | os.PathLike[str], folder: int | None) -> Path:
    """The path of a descriptor, or of a name beside the descriptor of its folder."""
    if isinstance(target, int):
        return Path(os.readlink(f"/proc/self/fd/{target}"))
    return Path(target) if folder is None else _place(folder, None) / target
