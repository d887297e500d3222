"""A process that is killed at some step of its work in the file system."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class KilledError(BaseException):
    """Nothing of the process runs after it."""


def kill_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count renames, syncs, removals and new folders; from this one on nothing is done any more."""
    steps = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps >= step:
                raise KilledError
            return real(*args, **kwargs)

        return call

    for name in ("rename", "replace", "unlink", "rmdir", "fsync", "mkdir"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    for name in ("rename", "unlink", "write_text"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
