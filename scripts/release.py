"""Makes a release: wheel and sdist in dist/, checked, tried in an empty environment, tagged.

    make release                        everything; the tag is `v` and the version
    python scripts/release.py --no-tag  all but the tag, also with changes that are not committed

The version is that of pyproject.toml, and CHANGELOG.md must have it with a date. What is fetched
are the dependencies of the wheel, by pip, for the empty environment.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
PYTHONS = ("3.11", "3.12", "3.13")
"""Which the classifiers name."""

CORE = frozenset(
    {
        "aiofiles",  # disks without a wait in the loop
        "lark",  # SQL92 filters of brokers and clients
        "msgpack",  # the wire
        "msgspec",  # headers and bodies
        "prometheus-client",  # GET /metrics of the control address
        "psutil",  # `pocketmq ps`, and which processes are left over
        "rich",  # tables of the console
        "starlette",  # the control address, which `pocketmq up` and the fixtures serve
        "structlog",  # logs
        "typer",  # the console
        "uvicorn",  # the control address
        "uvloop",  # the event loop
    }
)
"""What `pip install pocketmq` brings, and what needs it; all else is an extra."""

NOT_IN_THE_WHEEL = ("tests/", "benchmarks/", "docs/", "pocketmq/simulation/")


class NotReadyError(Exception):
    """Why there is no release."""


def version() -> str:
    """The version of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def check_changelog(text: str, wanted: str) -> None:
    """The release has a section with a date, and nothing waits in Unreleased.

    Raises:
        NotReadyError: It has not.
    """
    if not re.search(rf"^## \[{re.escape(wanted)}\] - \d{{4}}-\d\d-\d\d$", text, re.MULTILINE):
        raise NotReadyError(f"CHANGELOG.md has no `## [{wanted}] - YYYY-MM-DD`")
    waiting = text.partition("## [Unreleased]")[2].partition("\n## ")[0]
    if re.search(r"^- ", waiting, re.MULTILINE):
        raise NotReadyError(f"CHANGELOG.md has lines in Unreleased: move them to {wanted}")


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist, made without fetching anything."""
    _run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], ROOT)
    (wheel,) = folder.glob(f"pocketmq-{version()}-*.whl")
    return wheel, folder / f"pocketmq-{version()}.tar.gz"


def metadata(wheel: Path) -> Message:
    """The wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def check_metadata(found: Message) -> None:
    """What an index shows of the release is right.

    Raises:
        NotReadyError: With what is wrong.
    """
    wrong = []
    if found["Version"] != version():
        wrong.append(f"the version is {found['Version']}")
    if not (found["Author"] or found["Author-email"]):
        wrong.append("no authors")
    urls = found.get_all("Project-URL") or []
    wrong += [f"{url}: the project has no address of its own yet" for url in urls]
    classifiers = found.get_all("Classifier", [])
    wrong += [
        f"no classifier for Python {python}"
        for python in PYTHONS
        if f"Programming Language :: Python :: {python}" not in classifiers
    ]
    if found["License-Expression"] != "Apache-2.0":
        wrong.append(f"the license is {found['License-Expression']}")
    if found["Description-Content-Type"] != "text/markdown":
        wrong.append("the description is no Markdown")
    needs = [each for each in found.get_all("Requires-Dist", []) if "extra ==" not in each]
    names = {re.split(r"[^\w-]", each)[0].lower() for each in needs}
    if names != CORE:
        wrong.append(f"it needs {sorted(names ^ CORE)} more, or less, than scripts/release.py says")
    if wrong:
        raise NotReadyError("; ".join(wrong))


def check_contents(wheel: Path, sdist: Path) -> None:
    """The wheel has the product alone; the sdist has what builds it.

    Raises:
        NotReadyError: With what is wrong.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    stray = [each for each in names if each.startswith(NOT_IN_THE_WHEEL)]
    if stray:
        raise NotReadyError(f"the wheel has {stray[0]}")
    for wanted in ("pocketmq/client/py.typed", "pocketmq/cluster/watch_page/routes.py"):
        if wanted not in names:
            raise NotReadyError(f"the wheel lacks {wanted}")
    with tarfile.open(sdist) as packed:
        inside = {each.partition("/")[2] for each in packed.getnames()}
    lacking = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} - inside
    if lacking or any(each.startswith(".venv") for each in inside):
        raise NotReadyError(f"the sdist lacks {sorted(lacking)}, or has an environment")


def try_out(wheel: Path, folder: Path) -> str:
    """Install the wheel into an empty environment and run the quickstart; what it needs.

    Raises:
        NotReadyError: It does not install or run.
    """
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    packages = next((folder / "lib").glob("python*/site-packages"))
    before = {each.name for each in packages.glob("*.dist-info")}, _size(packages)
    _run([str(python), "-m", "pip", "install", "--quiet", str(wheel)], folder)
    run_quickstart(python, folder)
    brought = sorted(
        each.name.split("-")[0]
        for each in packages.glob("*.dist-info")
        if each.name not in before[0]
    )
    size = (_size(packages) - before[1]) / 1e6
    return f"{len(brought)} packages, {size:.0f} MB: {', '.join(brought)}"


def run_quickstart(python: Path, folder: Path) -> None:
    """`pocketmq --version`, and scripts/quickstart.py, away from the clone.

    Raises:
        NotReadyError: They do not run.
    """
    shown = _run([str(python.parent / "pocketmq"), "--version"], folder)
    if not shown.startswith(f"pocketmq {version()}\n"):
        raise NotReadyError(f"pocketmq --version prints {shown}")
    shown = _run([str(python), str(ROOT / "scripts" / "quickstart.py")], folder)
    if "done: everything has stopped" not in shown:
        raise NotReadyError(f"the quickstart prints {shown}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--no-tag", action="store_true", help="build, check and try; no tag")
    chosen = parser.parse_args(arguments)
    tag = f"v{version()}"
    try:
        if not chosen.no_tag:
            check_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), version())
            if _run(["git", "status", "--porcelain"], ROOT):
                raise NotReadyError("there are changes that are not committed")
            if _run(["git", "tag", "--list", tag], ROOT):
                raise NotReadyError(f"there is a tag {tag}: raise the version in pyproject.toml")
        wheel, sdist = build(DIST)
        check_metadata(metadata(wheel))
        check_contents(wheel, sdist)
        with tempfile.TemporaryDirectory() as folder:
            print(try_out(wheel, Path(folder)))
        if not chosen.no_tag:
            _run(["git", "tag", "--annotate", tag, "-m", f"PocketMQ {version()}"], ROOT)
    except NotReadyError as exc:
        print(f"no release: {exc}", file=sys.stderr)
        return 1
    print(f"{wheel.relative_to(ROOT)}\n{sdist.relative_to(ROOT)}")
    print("not tagged" if chosen.no_tag else f"tagged {tag}: git push origin {tag}")
    return 0


def _run(words: list[str], folder: Path) -> str:
    # PYTHONPATH and its like would lead from the empty environment back to the clone.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReadyError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


if __name__ == "__main__":
    sys.exit(main())
