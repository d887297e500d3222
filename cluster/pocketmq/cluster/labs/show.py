"""Prints a verdict: stage by stage, and the time line of the stage that failed."""

from __future__ import annotations

import textwrap
from typing import Any

from rich.console import Console
from rich.text import Text

from pocketmq.cluster.labs.catalog import LABS, Lab
from pocketmq.cluster.labs.check import Verdict
from pocketmq.cluster.labs.verdict import Mark, Stage, Step
from pocketmq.runtime.words import counted

MOST_STEPS = 14
"""Of the failed stage, the last so many are shown."""

_NARROWEST = 24
"""Columns that an indented text has at least."""

_STYLES = {Mark.NOTE: "", Mark.RIGHT: "green", Mark.WRONG: "bold red"}
_SIGNS = {Mark.NOTE: " ", Mark.RIGHT: "+", Mark.WRONG: "x"}


def show_list(console: Console) -> None:
    """All labs."""
    for lab in LABS:
        _line(console, f"{lab.number}  {lab.title}\n   {lab.question}")
    _line(console, "\nbegin with: pocketmq lab start 1")


def facts_of(lab: Lab, verdict: Verdict) -> dict[str, Any]:
    """The verdict of a check, for programs."""
    record = verdict.record
    return {
        "lab": lab.number,
        "passed": record.passed,
        "took_s": round(verdict.took_s, 3),
        "titles": list(record.titles),
        "stages": [
            {
                "title": stage.title,
                "right": stage.right,
                "wrong": None if stage.wrong is None else _step_facts(stage.wrong),
            }
            for stage in record.stages
        ],
        "last_words": verdict.last_words,
    }


def _step_facts(step: Step) -> dict[str, Any]:
    return {
        "at_s": step.at_s,
        "what": step.what,
        "wanted": step.wanted,
        "found": step.found,
        "why": step.why,
    }


def show_verdict(console: Console, lab: Lab, verdict: Verdict) -> None:
    """The verdict of a check."""
    record = verdict.record
    _line(console, f"lab {lab.number}: {lab.title}\n")
    for at, title in enumerate(record.titles):
        # Stages after the wrong one were not run, and have no result.
        stage = record.stages[at] if at < len(record.stages) else None
        _line(console, *_headline(at + 1, title, stage))
        if stage is not None and stage.wrong is not None:
            _time_line(console, stage)
    passed = sum(stage.wrong is None for stage in record.stages)
    if verdict.last_words:
        _line(console, "\nthe end of the program's standard error:\n")
        _line(console, "\n".join(f"    {line}" for line in verdict.last_words.splitlines()))
    style = "bold green" if record.passed else "bold red"
    _line(console, f"\n{passed} of {len(record.titles)} stages passed", style, end="")
    _line(console, f", in {verdict.took_s:.1f} s")


def _headline(number: int, title: str, stage: Stage | None) -> tuple[str, str]:
    if stage is None:
        return f"  {number}  {title:28} not reached", ""
    if stage.wrong is not None:
        return f"  {number}  {title:28} WRONG, after {_steps(stage.right, 'right ')}\n", "bold red"
    return f"  {number}  {title:28} passed, {_steps(stage.right)}", "green"


def _time_line(console: Console, stage: Stage) -> None:
    left_out = len(stage.steps) - MOST_STEPS
    if left_out > 0:
        _line(console, f"       ... {_steps(left_out)} before")
    for step in stage.steps[-MOST_STEPS:]:
        moment = "" if step.at_s is None else f"{step.at_s:+10.1f} s"
        start = f"   {_SIGNS[step.mark]} {moment}  "
        _line(console, start + step.what, _STYLES[step.mark], hang=len(start))
        if step.mark is Mark.WRONG:
            _explanation(console, step)
    _line(console, "")


def _explanation(console: Console, step: Step) -> None:
    # As wide as the time and the sign in the line above.
    indent = " " * (7 if step.at_s is None else 19)
    _line(console, f"{indent}right:  {step.wanted}", hang=len(indent) + 8)
    _line(console, f"{indent}yours:  {step.found}", hang=len(indent) + 8)
    if step.why:
        _line(console, f"{indent}why:    {step.why}", hang=len(indent) + 8)


def _line(
    console: Console, text: str, style: str = "", *, end: str = "\n", hang: int | None = None
) -> None:
    """Print a text.

    Args:
        console: Where.
        text: Printed as it is, where nothing else is said.
        style: Its style.
        end: What follows it.
        hang: On a terminal a long text goes on in further lines, indented so far.
    """
    # In a pipe lines stay whole, so that searches find their words.
    if hang is not None and console.is_terminal:
        width = max(console.width, hang + _NARROWEST)
        text = textwrap.fill(
            text,
            width,
            subsequent_indent=" " * hang,
            break_long_words=False,  # ids and paths are copied whole
            break_on_hyphens=False,
        )
    console.print(Text(text, style=style), end=end, soft_wrap=True, highlight=False)


def _steps(number: int, kind: str = "") -> str:
    return counted(number, f"{kind}step")
