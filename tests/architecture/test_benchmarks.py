"""What benchmarks write down."""

from __future__ import annotations

import importlib
import json
import re
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
    figures.save({"b": [4.0]}, "bench", ["10 rows, 1/2"])
    assert (results / "bench-only-10_rows_1_2.json").exists()


ONLY = re.compile(r'add_argument\(\s*"--only"')
SAVED = re.compile(r"\bsave\([^,]+, [^,]+, (?P<only>[^)]*)\)")


def test_each_benchmark_that_is_asked_for_some_rows_says_so_when_it_saves() -> None:
    asked = {
        path.stem: [match["only"] for match in SAVED.finditer(text)]
        for path in sorted((ROOT / "benchmarks").glob("*.py"))
        if ONLY.search(text := path.read_text())
    }
    assert {"run", "features", "store", "many", "desk", "spark", "beside_rocketmq"} <= asked.keys()
    for name, saved in asked.items():
        assert saved, f"{name} saves its figures in a way of its own"
        assert all("only" in each for each in saved), name
        text = (ROOT / "benchmarks" / f"{name}.py").read_text()
        assert "write_text(json" not in text, name


def test_the_sections_of_a_spark_run_are_saved_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyspark")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    figures, spark = importlib.import_module("figures"), importlib.import_module("spark")
    monkeypatch.setattr(figures, "HERE", tmp_path)
    figures.save({"store": {}}, "spark", None)
    report = spark.Report(["jobs", "topic"])
    report.add("jobs", "Jobs", {"ratio": 0.5})
    report.add("topic", "Topic", {"ratio": 1.5})
    saved = json.loads((tmp_path / "results" / "spark-only-jobs-topic.json").read_text())
    assert {name: each["ratio"] for name, each in saved.items()} == {"jobs": 0.5, "topic": 1.5}
    assert json.loads((tmp_path / "results" / "spark.json").read_text()) == {"store": {}}
