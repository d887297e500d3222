"""`pocketmq lab` from the command line: what a learner reads, and one-line errors."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from pocketmq.cluster.cli.main import main
from pocketmq.cluster.labs.catalog import LABS
from pocketmq.cluster.labs.check import Verdict
from pocketmq.cluster.labs.show import show_verdict
from pocketmq.cluster.labs.verdict import Record, WrongStepError

ROOT = Path(__file__).resolve().parents[2]


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a command."""
    status = main(["lab", *words])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_all_labs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = ran(capsys, "list")
    assert status == 0
    assert all(lab.title in out for lab in LABS)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: f"lab {lab.number}")
def test_a_lab_starts_in_a_folder_that_says_what_to_do(
    lab, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, _ = ran(capsys, "start", str(lab.number))
    assert status == 0
    assert out.endswith(f"then: pocketmq lab check {lab.number}\n")
    folder = Path(f"lab-{lab.number}")
    page = (folder / "README.md").read_text()
    assert "## The question" in page
    assert "## Predict first" in page
    assert "## In another language" in page
    assert f"\n$ pocketmq lab check {lab.number} . " in page
    for title in lab.stages:
        assert re.search(title.rpartition(",")[0] or title, page, re.IGNORECASE), title
    compile((folder / "lab.py").read_text(), "lab.py", "exec")
    status, _, err = ran(capsys, "start", str(lab.number))
    assert status == 1
    assert err.endswith("README.md already exists; choose another folder\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["start", "9"], "there is no lab 9; choose a number from 1 to 8"),
        (["check", "0"], "there is no lab 0"),
        (["check", "1"], "lab-1 does not exist; `pocketmq lab start 1` makes"),
        (["check", "1", "mine.py"], "mine.py does not exist"),
        (["check", "1", " "], "the command line is empty"),
    ],
)
def test_a_wrong_command_is_told_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = ran(capsys, *words)
    assert (status, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.cluster
def test_a_program_that_cannot_be_run_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = ran(capsys, "check", "8", "/no/such/program --fast")
    assert status == 1
    assert "/no/such/program cannot be run: No such file or directory" in err
    assert err.count("\n") == 1


@pytest.mark.cluster
def test_the_first_wrong_step_is_shown_with_the_learners_own_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "lab.py"
    program.write_text("import sys\nsys.stdin.readline()\nprint(1 / 0)\n")
    status, out, err = ran(capsys, "check", "8", str(tmp_path), "--patience", "60")
    assert (status, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "lab 8: who is the master"
    assert re.match(r"  1  read an election +WRONG, after 0 right steps", lines[2])
    assert "yours:  the program ended with status 1" in out
    assert "ZeroDivisionError: division by zero" in out
    assert f'File "{program}", line 3' in out
    assert "\n0 of 3 stages passed, in " in out
    assert "\x1b" not in out, "no colours where nobody sees them"


@pytest.mark.cluster
def test_any_command_can_be_judged_and_notes_on_standard_output_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = f"{sys.executable} -c \"print('hello')\""
    status, out, _ = ran(capsys, "check", "8", command, "--patience", "60")
    assert status == 1
    assert "yours:  'hello': notes for people belong on standard error" in out


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_long_explanation_is_indented_on_a_terminal_and_one_line_in_a_file(
    is_terminal: bool,
) -> None:
    why = "the scan forgets a broker when it finds that its last registration is too old (N-21)"
    long_id = "7F" * 50
    record = Record(("gone",), lambda: 0)
    record.note("broker-a is frozen, " + "and time goes by, " * 5)
    record.note(f"stored as {long_id}")
    with pytest.raises(WrongStepError):
        record.wrong_step("it is gone", wanted={"after_s": 122}, found={"after_s": 120}, why=why)
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, color_system=None, width=80)
    show_verdict(console, LABS[1], Verdict(record, 1.0, ""))
    lines = shown.getvalue().splitlines()
    [at] = [at for at, line in enumerate(lines) if "why:" in line]
    if is_terminal:
        assert max(len(line) for line in lines if "7F" not in line) <= 80
        assert any(line.endswith(long_id) for line in lines), "a long id is copied whole"
        start = lines[at].index("the scan")
        assert lines[at + 1].startswith(" " * start + "registration is")
    else:
        assert lines[at].endswith(why)
