"""What the pages show exists: links, files, commands with their options, programs."""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from pocketmq.cluster.cli.main import main, make_app

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("*/README.md")),
    *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "behaviour.md"),
    *sorted((ROOT / "docs" / "rules").glob("*.md")),
    *sorted((ROOT / "cluster/pocketmq/cluster/labs/material").glob("*/README.md")),
]

COMMAND = re.compile(r"^(?: {4}|\$ )((?:pocketmq|python -m pocketmq\.\w+|make|\.venv/bin/\w+) .*)$")

USERS_PAGE_BYTES = 12 * 1024
"""A user's page is read in one go; what is longer has two subjects, or a history that git has."""

LONGER = {
    "behaviour.md": "made by `make docs`, a row for each behaviour",
    "simulated-faults.md": "tables made by `faults.py --table`",
    "walks.md": "a walk of 34 steps is one list",
}
"""Pages that are looked things up in, and not read."""

BECOMES_A_ROLE = ("broker", "nameserver", "controller", "proxy")
"""Commands that replace their process by the role's."""

GROUPED = frozenset(str(group.name) for group in make_app().registered_groups)
"""Commands that have commands of their own."""

RUNNABLE = [
    ("broker/README.md", "SEND_OK"),
    ("protocol/README.md", ""),
    ("docs/pop.md", "True reconsumed 1"),
    ("docs/timers.md", "after: [b'in an hour']"),
    ("docs/transactions.md", "at once: ['front']\nlater: ['slow']"),
    ("docs/requests.md", "AAPL 123.45"),
    ("docs/filters.md", ""),
    ("docs/settings.md", "15 -> 5\nonly after a restart with this file: flushDiskType"),
]
"""Pages whose first program is whole, and what it prints."""


def pages(parametrised: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        parametrised, PAGES, ids=lambda page: str(page.relative_to(ROOT))
    )


def programs(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@cache
def help_of(*command: str) -> str:
    if command[0] == "pocketmq" and command[1] not in BECOMES_A_ROLE:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            assert main([*command[1:], "--help"]) == 0, f"there is no command `{' '.join(command)}`"
        return shown.getvalue()
    module = command[2] if command[0] == "python" else f"pocketmq.{command[1]}"
    ran = subprocess.run(
        [sys.executable, "-m", module, "--help"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def commands(page: Path) -> list[list[str]]:
    """The command lines of a page, without comments; a line that ends in a backslash goes on."""
    lines = page.read_text().replace("\\\n", " ").splitlines()
    found = (COMMAND.match(line) for line in lines)
    plain = [re.split(r" {2,}#| {3,}|\|", match[1])[0] for match in found if match]
    return [shlex.split(line.replace("[", "").replace("]", "")) for line in plain]


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings]
    again = (f"{slug}-{slugs[:at].count(slug)}" for at, slug in enumerate(slugs) if slug)
    return {*slugs, *again, *re.findall(r'<a (?:id|name)="([^"]+)"', text)}


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_a_users_page_can_be_read_in_one_go(page: Path) -> None:
    size = page.stat().st_size
    assert (size > USERS_PAGE_BYTES) == (page.name in LONGER), f"{page.name} has {size} bytes"


@pages("page")
def test_each_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        if "://" in target:
            continue
        goal = (page.parent / target).resolve() if target else page
        assert goal.exists(), f"{target}: no such file, as seen from {page.parent}"
        if anchor and goal.suffix == ".md":
            assert anchor in anchors(goal), (
                f"{target}#{anchor}: no heading of {goal} has this anchor"
            )


@pages("page")
def test_each_command_line_names_a_command_and_options_that_exist(page: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for words in commands(page):
        if words[0] == "make":
            assert words[1] in targets
        if words[0] not in ("pocketmq", "python") or "--help" in words:
            continue
        size = 3 if words[0] == "python" or words[1] in GROUPED else 2
        if words[1].startswith("-") and words[0] == "pocketmq":
            continue
        shown = help_of(*words[:size])
        for option in (word for word in words if re.match(r"--?[a-z]", word)):
            if option != "-m":
                assert re.search(rf"(^|[\s,]){option}\b", shown), (
                    f"{' '.join(words)}: `{' '.join(words[:size])} --help` shows no {option}"
                )


@pages("page")
def test_each_command_in_the_text_of_a_page_exists_with_its_options(page: Path) -> None:
    """`pocketmq up --slaves 1` in a sentence, or in a block without a prompt."""
    text = page.read_text()
    bare = re.findall(r"^(pocketmq [a-z].*)$", text, re.MULTILINE)
    for line in [*re.findall(r"`(pocketmq [a-z][^`]*)`", text), *bare]:
        names = re.match(r"pocketmq((?: [a-z][\w-]*)+)", line)
        assert names, line
        words = names[1].split()
        shown = help_of("pocketmq", *words[: 2 if words[0] in GROUPED else 1])
        for option in re.findall(r"(?<=[\s|\[])--?[a-z][\w-]*", line.split("  #")[0]):
            assert re.search(rf"(^|[\s,]){option}\b", shown), (
                f"{line}: its --help shows no {option}"
            )


@pages("page")
def test_each_program_is_python_and_imports_what_exists(page: Path) -> None:
    for program in programs(page):
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("pocketmq"):
                module = importlib.import_module(str(node.module))
                for name in node.names:
                    assert hasattr(module, name.name), f"{node.module}.{name.name}"


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*/README.md")), ids=lambda page: page.parent.name
)
def test_each_file_in_a_modules_table_is_there(page: Path) -> None:
    module = page.parent
    places = [module, *(module / "pocketmq").glob("*")]
    for row in re.findall(r"^\| (`[^|]+) \|", page.read_text(), re.MULTILINE):
        folder = Path()  # a name without a folder may lie beside the one before it
        for name in map(Path, re.findall(r"`([\w/]+(?:\.py|/))`", row)):
            found = [place for place in places if (place / name).exists()]
            found += [place for place in places if (place / folder / name).exists()]
            assert found, f"{page.relative_to(ROOT)} names {name}, which is not there"
            folder = name.parent if name.parent.parts else folder


@pytest.mark.parametrize(("page", "output"), RUNNABLE)
def test_a_whole_program_on_a_page_runs(page: str, output: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", programs(ROOT / page)[0]],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert output in ran.stdout
