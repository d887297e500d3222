"""`scripts/compat.py`, without Java: what its options mean, what it writes, and how it ends."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compat import ledger
from compat.ledger import Known
from compat.suites import SUITES, Suite, Told, suite_named
from support.java import JavaError

ROOT = Path(__file__).resolve().parents[2]
WHY = "RocketMQ's broker does so too"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("scripts_compat", ROOT / "scripts" / "compat.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    without_tools = tuple(replace(suite, tools=()) for suite in SUITES)
    monkeypatch.setattr(module, "SUITES", without_tools)
    monkeypatch.setattr(module, "LOGS", tmp_path / "logs")
    monkeypatch.setattr(module, "today", lambda: "2026-12-01")
    return module


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A ledger by which `request` of Spring fails, and all else passes."""
    path = tmp_path / "results.toml"
    path.write_text(
        f'[spring."2.3.5"]\npassed = ["delay"]\n[spring."2.3.5".failed]\nrequest = "{WHY}"\n',
        "utf-8",
    )
    return path


def as_in_the_ledger(suite: Suite, _version: str, _broker: str) -> Told:
    """Everything passes but Spring's `request`."""
    rows = dict.fromkeys(suite.rows, ledger.OK)
    if suite.name == "spring":
        rows["request"] = "failed TimeoutException"
    return Told(rows, "a story")


def spring_with(**rows: str) -> Any:
    """Runs in which Spring says something else."""
    return lambda *of: Told({**as_in_the_ledger(*of).rows, **rows}, "what it printed")


def test_a_run_as_expected_writes_date_and_rows_and_keeps_the_reasons(
    script: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--only", "spring", "--results", str(results)]
    assert script.main(words, as_in_the_ledger) == 0
    known = ledger.read(results)["spring"]["2.3.5"]
    assert (known.date, known.failed) == ("2026-12-01", {"request": WHY})
    assert known.passed == tuple(row for row in suite_named("spring").rows if row != "request")
    assert known.title == suite_named("spring").title
    out = capsys.readouterr().out
    assert "[1/1] spring 2.3.5: as expected: 18 rows pass, 1 known to fail" in out
    assert f"    request: {WHY}" in out


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ({"delay": "failed early"}, "delay failed early"),
        ({"delay": "absent"}, "delay is absent, and has passed before"),
        ({"request": "ok"}, f"request passes: take it out of the failures ({WHY})"),
        ({"novelty": "failed 1"}, "novelty failed 1"),
    ],
)
def test_what_is_not_in_the_ledger_fails_the_run_and_is_not_written(
    script: Any, results: Path, capsys: pytest.CaptureFixture[str], rows: dict[str, str], line: str
) -> None:
    before = results.read_text("utf-8")
    words = ["--only", "spring", "--results", str(results)]
    assert script.main(words, spring_with(**rows)) == 1
    assert results.read_text("utf-8") == before
    out = capsys.readouterr().out
    assert f"    {line}\n" in out
    [log] = script.LOGS.iterdir()
    assert str(log) in out
    assert log.read_text("utf-8") == "what it printed"


def test_a_program_that_stops_half_way_fails_the_rows_that_it_did_not_reach(
    script: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--only", "spring", "--results", str(results)]
    assert script.main(words, lambda *_: Told({"start": "ok"})) == 1
    assert "    send failed: the program ended without a word of it\n" in capsys.readouterr().out


def test_a_suite_with_a_ledger_of_its_own_brings_the_reasons(
    script: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--only", "mqadmin", "--results", str(results)]
    rows = {**dict.fromkeys(suite_named("mqadmin").rows, "ok"), "statsAll": "failed"}
    assert script.main(words, lambda *_: Told(rows, explained={"statsAll": WHY})) == 0
    assert ledger.read(results)["mqadmin"]["5.3.3"].failed == {"statsAll": WHY}
    assert "mqadmin 5.3.3: as expected: 88 rows pass, 1 known to fail" in capsys.readouterr().out
    rows["topicList"] = "failed: it differs"
    assert script.main(words, lambda *_: Told(rows, explained={"statsAll": WHY})) == 1
    assert "    topicList failed: it differs\n" in capsys.readouterr().out


def test_a_suite_that_breaks_does_not_stop_the_next(
    script: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(suite: Suite, version: str, broker: str) -> Told:
        if suite.name == "spring":
            raise JavaError("no build")
        return as_in_the_ledger(suite, version, broker)

    assert script.main(["--only", "spring,java", "--results", str(results)], broken) == 1
    assert set(ledger.read(results)["java"]) == set(suite_named("java").versions)
    out = capsys.readouterr().out
    assert "spring 2.3.5: NOT AS EXPECTED" in out
    assert "    it did not run: no build\n" in out


def test_a_suite_without_its_tools_is_not_run_and_fails_the_run(
    script: Any, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    suites = tuple(replace(suite, tools=("no-such-tool",)) for suite in SUITES)
    monkeypatch.setattr(script, "SUITES", suites)
    assert script.main(["--only", "spring", "--results", str(results)], as_in_the_ledger) == 1
    assert "NOT RUN: no-such-tool is not installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ons-accounts", "only PocketMQ's broker has its accounts"),
        ("mqadmin", "it compares both brokers, and needs no --broker"),
    ],
)
def test_a_suite_that_cannot_ask_rocketmqs_broker_alone_is_not_run_with_it(
    script: Any, results: Path, capsys: pytest.CaptureFixture[str], name: str, why: str
) -> None:
    words = ["--only", name, "--broker", "5.3.3", "--results", str(results)]
    assert script.main(words, as_in_the_ledger) == 1
    assert f"NOT RUN: {why}\n" in capsys.readouterr().out


def test_resume_leaves_out_what_passed_today(script: Any, results: Path) -> None:
    asked: list[tuple[str, str]] = []

    def noted(suite: Suite, version: str, broker: str) -> Told:
        asked.append((suite.name, version))
        return as_in_the_ledger(suite, version, broker)

    assert script.main(["--only", "spring", "--results", str(results)], noted) == 0
    assert script.main(["--resume", "--results", str(results)], noted) == 0
    every = [(suite.name, version) for suite in SUITES for version in suite.versions]
    assert sorted(asked) == sorted(every)


@pytest.mark.parametrize("words", [["--version", "2.3.4"], ["--broker", "5.3.3"]])
def test_other_versions_and_brokers_are_judged_and_not_written(
    script: Any, results: Path, words: list[str]
) -> None:
    before = results.read_text("utf-8")
    run = spring_with(request="failed so" if "--broker" in words else "ok")
    arguments = ["--only", "spring", *words, "--results", str(results)]
    assert script.main(arguments, run) == 0
    assert results.read_text("utf-8") == before


def test_the_list_runs_nothing(
    script: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def never(*_: object) -> Told:
        raise AssertionError

    assert script.main(["--list", "--results", str(results)], never) == 0
    lines = capsys.readouterr().out.splitlines()
    for suite in SUITES:
        for version in suite.versions:
            assert any(line.split()[:2] == [suite.name, version] for line in lines)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--only", "sprung"], "no suite sprung; there are spring, "),
        (["--version", "2.3.4"], "--version is of one suite: add --only SUITE"),
        (["--broker", "6"], "invalid choice: '6'"),
    ],
)
def test_wrong_options_end_with_2_and_say_what_there_is(
    script: Any, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        script.options_of(words)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_help_says_what_to_do_about_a_failure(
    script: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        script.options_of(["--help"])
    out = capsys.readouterr().out
    assert "Exit status: 0 if all is as the file says" in out
    assert '[spring."2.3.5".failed]' in out


def test_a_failure_needs_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "results.toml"
    path.write_text('[spring."1"]\npassed = []\n[spring."1".failed]\nrequest = " "\n', "utf-8")
    with pytest.raises(ValueError, match="no reason for"):
        ledger.read(path)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    known = {"spring": {"1.0": Known("a `b`", "2026-12-01", ("x",), {"y-z": 'says "\\no"'})}}
    path = tmp_path / "results.toml"
    path.write_text(ledger.written(known), encoding="utf-8")
    assert ledger.read(path) == known


def test_the_file_is_as_the_script_writes_it() -> None:
    assert ledger.FILE.read_text("utf-8") == ledger.written(ledger.read())


def test_each_version_of_each_suite_has_passed_once() -> None:
    known = ledger.read()
    for suite in SUITES:
        for version in suite.versions:
            assert known[suite.name][version].passed


def test_the_ledger_knows_suites_versions_and_rows_only() -> None:
    for name, versions in ledger.read().items():
        suite = suite_named(name)
        for version, known in versions.items():
            assert version in suite.versions
            assert {*known.passed, *known.failed} <= set(suite.rows)
            assert not {*known.passed} & known.failed.keys()
