"""`make release`: what it checks is so, and the wheel runs the quickstart with nothing else."""

from __future__ import annotations

import importlib.util
import re
import sys
from email.message import Message
from pathlib import Path
from types import ModuleType

import pytest

from support.readers_python import ReadersPython

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def release() -> ModuleType:
    spec = importlib.util.spec_from_file_location("release", ROOT / "scripts" / "release.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def built(release: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    wheel, sdist = release.build(tmp_path_factory.mktemp("dist"))
    return wheel, sdist


def test_the_metadata_and_the_contents_are_right(
    release: ModuleType, built: tuple[Path, Path]
) -> None:
    release.check_metadata(release.metadata(built[0]))
    release.check_contents(*built)


def test_each_mistake_in_the_metadata_is_named(
    release: ModuleType, built: tuple[Path, Path]
) -> None:
    empty = Message()
    with pytest.raises(release.NotReadyError, match=r"no authors.*Python 3\.13.*license.*psutil"):
        release.check_metadata(empty)
    elsewhere = release.metadata(built[0])
    elsewhere["Project-URL"] = "Source, https://example.org/theirs"
    with pytest.raises(release.NotReadyError, match=r"example\.org"):
        release.check_metadata(elsewhere)


@pytest.mark.cluster
def test_the_wheel_alone_runs_the_quickstart(
    release: ModuleType, built: tuple[Path, Path], tmp_path: Path
) -> None:
    reader = ReadersPython(tmp_path / "empty", built[0])
    reader.install(["pocketmq"])
    release.run_quickstart(reader.python, tmp_path)


def test_the_changelog_has_this_version_with_a_date_and_is_short(release: ModuleType) -> None:
    sections = re.split(r"(?m)^## ", CHANGELOG)[1:]
    assert sections[0].startswith("[Unreleased]")
    released = [each for each in sections if re.match(r"\[[\d.]+\] - \d{4}-\d\d-\d\d\n", each)]
    assert len(released) == len(sections) - 1
    assert released[0].startswith(f"[{release.version()}] - ")
    for each in released:
        assert 10 <= len(re.findall(r"(?m)^- ", each)) <= 30, each.splitlines()[0]


def test_a_changelog_without_the_version_or_with_waiting_lines_stops_a_release(
    release: ModuleType,
) -> None:
    whole = "## [Unreleased]\n\n### Added\n\n## [9.9.9] - 2026-11-29\n\n- A line.\n"
    release.check_changelog(whole, "9.9.9")
    with pytest.raises(release.NotReadyError, match=r"no `## \[9\.9\.8\]"):
        release.check_changelog(whole, "9.9.8")
    with pytest.raises(release.NotReadyError, match="move them"):
        release.check_changelog(whole.replace("### Added\n", "### Added\n\n- One.\n"), "9.9.9")


def test_the_pythons_of_the_classifiers_can_run_it(release: ModuleType) -> None:
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in release.PYTHONS
