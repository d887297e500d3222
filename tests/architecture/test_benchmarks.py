"""What benchmarks write down."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_a_run_of_some_rows_leaves_the_figures_of_a_whole_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    figures = importlib.import_module("figures")
    monkeypatch.setattr(figures, "HERE", tmp_path)
    figures.save({"a": [1.0], "b": [2.0]}, "bench", None)
    figures.save({"a": [3.0]}, "bench", ["a"])
    results = tmp_path / "results"
    assert json.loads((results / "bench.json").read_text()) == {"a": [1.0], "b": [2.0]}
    assert json.loads((results / "bench-only-a.json").read_text()) == {"a": [3.0]}


@pytest.mark.parametrize("name", ["run", "features", "store", "rebalance", "many"])
def test_each_benchmark_says_which_rows_it_was_asked_for(name: str) -> None:
    text = (ROOT / "benchmarks" / f"{name}.py").read_text()
    assert "save(" in text
    assert "options.only)" in text
