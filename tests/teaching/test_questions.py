"""Each of the thirty questions of docs/questions.md has a recording that shows its answer."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = range(1, 31)


@pytest.fixture(scope="module")
def questions() -> ModuleType:
    spec = importlib.util.spec_from_file_location("questions", ROOT / "scripts" / "questions.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("number", NUMBERS)
def test_a_recording_shows_the_answer(number: int, questions: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "question.jsonl"
    link = questions.make(questions.QUESTIONS[number], path)
    assert re.fullmatch(r"#view=(cluster|queues|files|offsets|time)&t=\d+\.\d\d", link)
    assert path.stat().st_size < 16 * 1024 * 1024  # loaded whole


def test_the_page_names_the_recording_of_each_question(questions: ModuleType) -> None:
    page = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\d+) \| .* \| `questions\.py \d+`: (.*) \|$", page, re.MULTILINE))
    said = {str(number): questions.words(each) for number, each in questions.QUESTIONS.items()}
    assert rows == said
