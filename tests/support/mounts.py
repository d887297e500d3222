"""Small file systems of their own, for tests that fill, freeze or copy one. They need root."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

MIB = 1024 * 1024


@contextlib.contextmanager
def tmpfs(place: Path, mib: int) -> Iterator[Path]:
    """A memory disk of `mib` MiB at `place`; the test is skipped where none can be mounted."""
    with _mounted(place, "-t", "tmpfs", "-o", f"size={mib}m", "none"):
        yield place


@contextlib.contextmanager
def overlay(place: Path, upper: Path) -> Iterator[Path]:
    """What is written at `place` comes to `upper`, a folder of another file system."""
    folders = [upper / name for name in ("lower", "upper", "work")]
    for folder in folders:
        folder.mkdir()
    options = ",".join(
        f"{name}dir={path}" for name, path in zip(("lower", "upper", "work"), folders, strict=True)
    )
    with _mounted(place, "-t", "overlay", "-o", options, "none"):
        yield place


@contextlib.contextmanager
def image(file: Path, place: Path, *, mib: int = 0) -> Iterator[Path]:
    """The ext4 file system inside `file` at `place`; made anew with `mib` MiB if given."""
    if mib:
        file.write_bytes(b"")
        with file.open("r+b") as empty:
            empty.truncate(mib * MIB)
        _run_or_skip("mkfs.ext4", "-q", "-F", str(file))
    with _mounted(place, "-o", "loop", str(file)):
        yield place


@contextlib.contextmanager
def frozen(place: Path) -> Iterator[None]:
    """The file system at `place` takes no writes in this block: they hang."""
    _run_or_skip("fsfreeze", "--freeze", str(place))
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(place)], check=True)


@contextlib.contextmanager
def _mounted(place: Path, *arguments: str) -> Iterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    _run_or_skip("mount", *arguments, str(place))
    try:
        yield
    finally:
        # Lazily: a process that a failed test left behind must not keep the rest from cleaning up.
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def _run_or_skip(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip(f"{command[0]} is not installed")
    if done.returncode:
        pytest.skip(f"{command[0]} is not possible here: {done.stderr.strip()}")
