"""What `make setup` and CI install is locked: each dependency at a version, with its hashes."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def _entries() -> list[str]:
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def _wanted(texts: list[str]) -> list[Requirement]:
    """All that these requirements name, those of PocketMQ's own extras included."""
    found = []
    for requirement in map(Requirement, texts):
        if requirement.name == "pocketmq":
            for extra in requirement.extras:
                found += _wanted(PROJECT["optional-dependencies"][extra])
        else:
            found.append(requirement)
    return found


def test_the_lock_has_each_dependency_in_a_version_that_pyproject_allows() -> None:
    locked = {}
    for entry in _entries():
        name, _, version = entry.split(" ")[0].partition("==")
        # Two would be one for each Python: what CI has tested is not what others install then.
        assert canonicalize_name(name) not in locked, f"{name} is locked twice"
        locked[canonicalize_name(name)] = Version(version)
    wanted = _wanted([*PROJECT["dependencies"], "pocketmq[dev,demo]"])
    assert len(wanted) > 30
    wrong = [
        str(one)
        for one in wanted
        if (version := locked.get(canonicalize_name(one.name))) is None
        or not one.specifier.contains(version)
    ]
    assert not wrong, "make lock"


def test_each_line_of_the_lock_has_hashes() -> None:
    entries = _entries()
    assert len(entries) > 100
    assert not [entry for entry in entries if "--hash=sha256:" not in entry]


def test_what_has_no_wheel_is_built_by_a_locked_setuptools() -> None:
    # In isolation pip and uv would fetch the newest that day.
    recipe = re.search(
        r"sed -n '(?P<what>[^']+)' requirements.lock", (ROOT / "Makefile").read_text()
    )
    assert recipe is not None
    what = recipe["what"].replace("$$", "$")
    command = ["sed", "-n", what, str(ROOT / "requirements.lock")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [entry] = found.replace("\\\n", " ").splitlines()
    assert entry.startswith("setuptools==")
    assert "--hash=sha256:" in entry


def test_setup_installs_from_the_lock_and_again_when_it_changes() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "$(STAMP): pyproject.toml requirements.lock\n" in makefile
    assert "--require-hashes --no-build-isolation -r requirements.lock" in makefile
    assert "--no-deps --no-build-isolation -e ." in makefile
