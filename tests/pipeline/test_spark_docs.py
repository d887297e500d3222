"""`docs/spark.md` and the pages after it do what they say: each block is run as by a reader."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from pocketmq.pipeline.options.options import Option
from pocketmq.pipeline.stores.store_read import OPTIONS as STORE
from pocketmq.pipeline.topics.settings import READ, WRITE
from support.object_store import object_store
from support.reader import Reader, indented_blocks, not_run, pieces
from support.spark_store import open_store, put, stored

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "spark.md"
NEXT = ("read", "write", "stores", "tables", "cluster")
PAGES = (PAGE, *(DOCS / f"spark-{name}.md" for name in NEXT))
"""In the order in which a reader follows them."""
OPTIONS = DOCS / "spark-options.md"
WITHOUT_BLOCKS = (OPTIONS, *(DOCS / f"spark-{name}.md" for name in ("kafka", "loss")))
OF_OTHER_TESTS = (DOCS / "jobs.md", DOCS / "arrow.md")
OBJECT_STORE = "127.0.0.1:9000"
"""The S3 server on the pages, which they do not start."""
SCREEN_LINES = 65

WHERE = """
import pocketmq.client, pyspark_pocketmq
print(pocketmq.client.__file__, pyspark_pocketmq.__file__)
"""


@pytest.mark.java
@pytest.mark.cluster
@pytest.mark.timeout(1_800)  # took over 600 s beside a machine full of others
def test_every_block_runs_and_prints_what_is_shown(wheel: Path, tmp_path: Path) -> None:
    """On a machine with Java and an S3 server; the pages bring the rest, each before it is needed.

    Spark finds both sources there without a call.
    """
    with object_store() as s3, open_store(tmp_path / "small") as store:
        put(store, [stored(topic="orders") for _ in range(4)])
        s3.files.mkdir("bucket")
        s3.files.put(str(tmp_path / "small"), "s3://bucket/broker-a", recursive=True)
        reader = Reader(
            tmp_path / "machine",
            wheel,
            addresses={OBJECT_STORE: s3.address},
            variables={"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"},
        )
        with reader:
            for page in PAGES:
                reader.follow(page.read_text())
            where = reader.python(WHERE).split()
            inside = reader.environment.folder
            assert len(where) == 2
            assert all(Path(each).is_relative_to(inside) for each in where)


def test_a_block_that_is_not_run_says_why_and_none_is_hidden() -> None:
    reasons = {page.name: not_run(page.read_text()) for page in (*PAGES, *OF_OTHER_TESTS)}
    assert {name: len(found) for name, found in reasons.items() if found} == {"spark-cluster.md": 2}
    for page in (*PAGES, *OF_OTHER_TESTS, *WITHOUT_BLOCKS):
        assert not indented_blocks(page.read_text()), page.name
    for page in WITHOUT_BLOCKS:
        assert not list(pieces(page.read_text())), page.name


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "2\nis shown, and printed:\n1"),
        ("```python\nprint(1)\n```\n", "prints more than is shown: 1"),
        ("```python\nimport pocketmq.client\n```\n", "No module named 'pocketmq'"),
        ("```console\n$ pocketmq topic list\n```\n", "command not found"),
        ("```console\n$ echo {1,2}\n{1,2}\n```\n", "1 2"),
        ("```json\n{}\n```\n", "a block that is not run: json"),
    ],
)
def test_a_page_that_does_not_do_what_it_says_is_noticed(
    page: str, message: str, tmp_path: Path
) -> None:
    with (
        pytest.raises(AssertionError, match=re.escape(message)),
        Reader(tmp_path, tmp_path / "no wheel") as reader,
    ):
        reader.follow(page)


def test_the_first_page_is_one_screen() -> None:
    assert len(PAGE.read_text().splitlines()) <= SCREEN_LINES


def rendered(options: tuple[Option, ...]) -> str:
    lines = ["| option | default | what it means |", "|---|---|---|"]
    for option in options:
        names = f"`{option.name}`"
        if option.aliases:
            names += ", also " + ", ".join(f"`{alias}`" for alias in option.aliases)
        default = f"`{option.default}`" if option.default else ""
        lines.append(f"| {names} | {default} | {option.help.replace('|', chr(92) + '|')} |")
    return "\n".join(lines)


@pytest.mark.parametrize(("name", "options"), [("read", READ), ("write", WRITE), ("store", STORE)])
def test_the_page_lists_every_option_with_its_names_and_default(
    name: str, options: tuple[Option, ...]
) -> None:
    expected = f"<!-- options: {name} -->\n\n{rendered(options)}\n"
    if os.environ.get("POCKETMQ_WRITE_DOCS"):
        page = re.sub(
            rf"<!-- options: {name} -->\n(\n\|(?:.*\n)*?(?=\n|\Z))?",
            lambda _: expected,
            OPTIONS.read_text(),
        )
        OPTIONS.write_text(page)
    assert expected in OPTIONS.read_text(), "POCKETMQ_WRITE_DOCS=1 pytest this file writes it"
