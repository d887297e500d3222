"""What pages show is typed as it stands there, line by line, and prints what they show.

`tests/support/typed_page.py` is the reader. A block that it cannot run has a marker in the page,
with the reason; `docs/generated/` and `docs/rules/` show no commands.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import typed_help, typed_page
from support.typed_page import ROOT, lines, own_network, reasons

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PAGES = (
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("[a-z]*/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "cluster/pocketmq/cluster/labs/material").glob("*/README.md")),
)
ELSEWHERE = {
    "docs/arrow.md": "tests/pipeline/test_pages_without_spark.py",
    "docs/console.md": "tests/console/test_console_page.py",
    "docs/jobs.md": "tests/pipeline/jobs/test_jobs_docs.py",
    "docs/spark.md": "tests/pipeline/test_spark_docs.py",
    "docs/spark-cluster.md": "tests/pipeline/test_spark_docs.py",
    "docs/spark-read.md": "tests/pipeline/test_spark_docs.py",
    "docs/spark-stores.md": "tests/pipeline/test_spark_docs.py",
    "recipes/rocketmq-proxy/README.md": "tests/recipes/test_recipes.py",
    "tests/compat/README.md": "tests/compat/test_suites.py",
    "tests/parity/README.md": "tests/parity/test_parity.py",
}
"""Pages that need more than a shell, and the test that follows each as it is typed."""
MARKERS = 27
"""Blocks of all pages that are not run. A new one has to be counted here."""
BY_PAGES = {
    "pocketmq down",
    "pocketmq down --data ./cluster",
    "pocketmq restart broker-a",
    "pocketmq up --data ./flights",
    "pocketmq topic create flight-delays",
    "pocketmq consume flight-delays --count 5",
}
"""Examples that pages, or the examples of other commands, type."""
NOT_RUN_EXAMPLES = 26


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def followed() -> list[Path]:
    """Pages with a command line that is to be run here."""
    return [each for each in PAGES if name_of(each) not in ELSEWHERE and lines(each.read_text())]


@pytest.mark.parametrize("page", followed(), ids=name_of)
def test_each_line_of_a_page_does_what_is_shown(page: Path, tmp_path: Path) -> None:
    reader = [sys.executable, typed_page.__file__, str(page), str(tmp_path / "reader")]
    network = own_network()
    ran = subprocess.run(
        [*network, *reader, *(["--own-network"] if network else [])],
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


WORLDS = [
    pytest.param(world, marks=[pytest.mark.java, pytest.mark.nightly, pytest.mark.timeout(1900)])
    if world == typed_help.PIPELINE
    else world
    for world in range(len(typed_help.WORLDS))
]


@pytest.mark.parametrize("world", WORLDS)
def test_each_example_of_help_can_be_typed(world: int, tmp_path: Path) -> None:
    reader = [sys.executable, typed_help.__file__, str(world), str(tmp_path / "reader")]
    network = own_network()
    ran = subprocess.run(
        [*network, *reader, *(["--own-network"] if network else [])],
        capture_output=True,
        text=True,
        timeout=1800 if world == typed_help.PIPELINE else 500,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_each_example_of_help_is_run_or_counted() -> None:
    texts = typed_help.commands()
    worlds = [name for world in typed_help.WORLDS for name in world.commands]
    assert len(set(worlds)) == len(worlds)
    left = {
        typed
        for name, text in texts.items()
        for typed in typed_help.examples(text)
        if name not in worlds and not typed_help.why_not(typed)
    }
    assert left == BY_PAGES
    every = [typed for text in texts.values() for typed in typed_help.examples(text)]
    assert len([typed for typed in every if typed_help.why_not(typed)]) == NOT_RUN_EXAMPLES


def test_blocks_that_are_not_run_are_counted_and_say_why() -> None:
    found = {name_of(page): reasons(page.read_text()) for page in PAGES}
    assert sum(map(len, found.values())) == MARKERS, found
    markers = sum(len(re.findall("^<!-- not run", page.read_text(), re.M)) for page in PAGES)
    assert markers == MARKERS, "a marker stands right before its block"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_command_stands_where_nobody_runs_it(page: Path) -> None:
    """In a block of another kind, or in an indented one, without a marker."""
    text = typed_page.BLOCK.sub("", page.read_text())
    text = typed_page.FILE.sub("", text)
    text = re.sub(r"^```(?:text|json|python|yaml|toml)\n.*?^```$", "", text, flags=re.M | re.S)
    command = r"^(?: {4})?(?:\$ )?(?:\.venv/bin/\w+|pocketmq|python|make|pip|docker|mvn|go) .*"
    assert not re.findall(command, text, re.M)


def test_each_page_that_another_test_follows_is_named_there() -> None:
    for page, test in ELSEWHERE.items():
        text = (ROOT / test).read_text()
        stem = Path(page).parent.name if page.endswith("README.md") else Path(page).stem
        assert stem in text or stem.removeprefix("spark-") in text, (page, test)


def test_no_page_of_the_tree_is_left_out() -> None:
    listed = ["git", "ls-files", "*.md", ":!docs/rules", ":!docs/generated", ":!tests/golden"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {*names.split()} == {name_of(page) for page in PAGES} | ELSEWHERE.keys()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ("$ false\n", "ended with status 1"),
        ("$ echo 1\ntwo\n", "is shown to print"),
        ("$ pocketmq ready\n", "ended with status"),
        ("$ sleep 100 &\n", "still runs"),
        ("echo 1\n", "begins without a command"),
    ],
)
def test_a_page_that_does_not_do_what_it_shows_is_noticed(
    block: str, message: str, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"```console\n{block}```\n")
    reader = [sys.executable, typed_page.__file__, str(page), str(tmp_path / "reader")]
    ran = subprocess.run([*own_network(), *reader], capture_output=True, text=True, timeout=500)
    assert ran.returncode == 1
    assert message in ran.stderr
