"""Each lab: its solution passes, and each mistake is found at the right step."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from labs.answers import WRONG, solution, starting_file
from pocketmq.cluster.labs.catalog import LABS, Lab
from pocketmq.cluster.labs.check import Verdict, check
from pocketmq.cluster.labs.judges import allocation
from pocketmq.cluster.labs.verdict import Mark
from pocketmq.cluster.labs.world import world_of

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.cluster

PATIENCE_S = 90.0
"""For a loaded machine. Nothing here waits until the patience is at its end."""


@pytest.mark.timeout(600)  # a dozen processes one after the other, on a machine with others
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: f"lab {lab.number}")
async def test_the_solution_passes_and_each_mistake_is_named(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world_of(lab) as cluster:

        async def verdict(name: str, text: str) -> Verdict:
            path = tmp_path / f"{name}.py"
            path.write_text(text)
            return await check(lab, [str(path)], patience_s=PATIENCE_S, cluster=cluster)

        solved = await verdict("solution", solution(lab.number))
        assert solved.record.passed, (solved.record.wrong, solved.last_words)

        monkeypatch.setattr(allocation, "GROUPS", 150)  # enough for what is wrong in lab 3
        begun = await verdict("start", starting_file(lab.number))
        assert begun.record.wrong is not None
        assert begun.record.wrong.why, "a beginner is told the rule"

        for number, wrong in enumerate(WRONG[lab.number], 1):
            text = solution(lab.number)
            assert wrong.old in text
            found = await verdict(f"wrong-{number}", text.replace(wrong.old, wrong.new))
            step = found.record.wrong
            assert step is not None, f"not found: {wrong.new}"
            stage = found.record.stages[-1]
            seen = (stage.title, step.what, step.found, found.last_words)
            assert stage.title == wrong.stage, seen
            assert wrong.step in step.what, seen
            assert [each.mark for each in stage.steps].count(Mark.WRONG) == 1


def test_each_lab_has_at_least_two_mistakes() -> None:
    assert all(len(WRONG[lab.number]) >= 2 for lab in LABS)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: f"lab {lab.number}")
def test_each_rule_that_a_page_names_is_explained(lab: Lab) -> None:
    known = {
        anchor
        for page in (ROOT / "docs" / "rules").glob("*.md")
        for anchor in re.findall(r'<a id="([a-z]+-\d+)">', page.read_text())
    }
    page = (lab.folder / "README.md").read_text()
    named = re.findall(r"\b([A-Z]{1,2}-\d+)\b", page)
    assert named
    assert [rule for rule in named if rule.lower() not in known] == []
