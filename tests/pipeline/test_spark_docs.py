"""`docs/spark.md` and the pages after it do what they say: each block is run."""

from __future__ import annotations

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pocketmq.pipeline.options import Option
from pocketmq.pipeline.settings import READ, WRITE
from pocketmq.pipeline.store_read import OPTIONS as STORE
from support.spark_cluster import SparkCluster, spark_cluster
from support.wheel import environment_of_the_wheel

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "spark.md"
NEXT = ("read", "write", "stores", "tables")
PAGES = (PAGE, *(DOCS / f"spark-{name}.md" for name in NEXT))
"""In the order in which a reader follows them."""
OPTIONS = DOCS / "spark-options.md"
UP = "$ pocketmq up --data ./cluster"
SCREEN_LINES = 65
ADDRESS = "127.0.0.1:9876"
STORE_PATH = "cluster/broker-a"

MORE = """
print(spark.read.format("pocketmq-store").load("cluster/broker-a").where("topic='orders'").count())
import pocketmq.client, pathlib
print(pathlib.Path(pocketmq.client.__file__).parents[5])
"""
"""What the test asks behind the page's script."""

Block = tuple[str, str]
"""Language and text."""


def blocks(pages: tuple[Path, ...] = PAGES) -> list[Block]:
    text = "\n".join(page.read_text() for page in pages)
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("docs"), brokers=1) as cluster:
        yield cluster


def run_console(text: str, cluster: SparkCluster) -> None:
    for line in text.splitlines():
        if line.startswith("$ pocketmq ") and line != UP:
            words = line.removeprefix("$ pocketmq ").split()
            done = subprocess.run(
                [sys.executable, "-m", "pocketmq.cluster.cli.main", *words],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                env=os.environ | {"NAMESRV_ADDR": cluster.nameservers},
            )
            assert (done.returncode, done.stderr) == (0, ""), line


def run_python(text: str, names: dict[str, object], cluster: SparkCluster) -> str:
    code = text.replace(ADDRESS, cluster.nameservers)
    code = code.replace(STORE_PATH, str(cluster.store("broker-a")))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, str(PAGE), "exec"), names)
    return printed.getvalue()


def stripped(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip().splitlines() if line.strip()]


def test_every_block_runs_and_prints_what_is_shown(
    spark: SparkSession, one_broker: SparkCluster
) -> None:
    names: dict[str, object] = {}
    printed: str | None = None
    for language, text in blocks():
        if language == "text":
            assert printed is not None, "output without a block before it"
            assert stripped(printed) == stripped(text)
            printed = None
            continue
        assert not (printed or "").strip(), f"prints more than is shown: {printed}"
        if language == "console":
            run_console(text, one_broker)
            printed = None
        else:
            assert language == "python", f"a block that is not run: {language}"
            printed = run_python(text, names, one_broker)
    assert not (printed or "").strip()


@pytest.mark.java
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_the_first_page_runs_as_a_reader_types_it_where_only_the_wheel_is(
    spark_programs: None, tmp_path: Path
) -> None:
    """Its commands and one script, with an empty home; only ports are others.

    Spark finds both sources there without a call.
    """
    found = blocks((PAGE,))
    assert [language for language, _ in found] == ["console", "console", "python", "text"]
    up, commands, script, shown = (text for _, text in found)
    assert up.strip() == UP
    home = tmp_path / "home"
    home.mkdir()
    known = ("PATH", "JAVA_HOME", "LANG", "JDK_JAVA_OPTIONS")
    env = {name: os.environ[name] for name in known if name in os.environ} | {"HOME": str(home)}
    python = str(environment_of_the_wheel(tmp_path) / "python")
    cli = [python, "-m", "pocketmq.cluster.cli.main"]

    def run(*words: str) -> str:
        done = subprocess.run(
            words, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with subprocess.Popen(
        [*cli, *UP.split()[2:], "--any-port", "--control-port", "-1"],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as cluster:
        try:
            assert cluster.stdout is not None
            for line in cluster.stdout:
                if line.startswith("NAMESRV_ADDR="):
                    env["NAMESRV_ADDR"] = line.strip().removeprefix("NAMESRV_ADDR=")
                if "Ctrl-C" in line:
                    break
            else:
                pytest.fail("`pocketmq up` has ended")
            for line in commands.strip().splitlines():
                run(*cli, *line.split()[2:])
            script = script.replace(ADDRESS, env["NAMESRV_ADDR"])
            (tmp_path / "page.py").write_text(script + MORE)
            printed = stripped(run(python, "page.py"))
            assert printed[-2:] == ["4", f"{tmp_path / 'clean'}"]
            assert printed[:-2] == stripped(shown)
            assert (tmp_path / "cluster/broker-a/commitlog").is_dir()
        finally:
            cluster.send_signal(signal.SIGINT)


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
