"""`scripts/parity.py`, without Java: what its options mean together, and how it ends."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from parity.campaign import Report
from parity.compare import Difference

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def script() -> Any:
    spec = importlib.util.spec_from_file_location("scripts_parity", ROOT / "scripts" / "parity.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("words", "first", "most"),
    [
        ([], 200, 200),
        (["--pairs", "3"], 3, 3),
        (["--minutes", "5"], 1000, None),
        (["--pairs", "3", "--minutes", "5"], 3, 3),
    ],
)
def test_minutes_alone_limit_no_number_of_pairs(
    script: Any, words: list[str], first: int, most: int | None
) -> None:
    numbers = script.numbers_of(script.options_of(words))
    assert len(list(itertools.islice(numbers, 1000))) == first
    assert (next(numbers, None) is None) == (most is not None)


@pytest.mark.parametrize("other", [["--nameserver"], ["--controller"], ["--one", "a:1"]])
def test_logs_are_of_many_pairs_of_brokers(
    script: Any, other: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        script.options_of(["--log", *other])
    assert ended.value.code == 2
    assert "--log" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "failed", "in_logs", "status"),
    [
        ([], False, True, 0),
        (["--log"], False, False, 0),
        (["--log"], False, True, 1),
        (["--log"], True, False, 1),
    ],
)
def test_the_status_is_1_where_answers_or_logs_differ(
    script: Any,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    failed: bool,
    in_logs: bool,
    status: int,
) -> None:
    difference = Difference("X", "code", "1", "0", 0)
    report = Report(pairs=2, suffixes={"a:0": "1z", "a:1": "2z"})
    if failed:
        report.failed["a:0"] = [difference]

    async def compared(
        _runner: object, _ledger: object, sequences: Iterator[object], *_: object, **__: object
    ) -> Report:
        assert len(list(sequences)) == 2
        return report

    class Clock:
        monotonic = time_ms = staticmethod(lambda: 0)

        async def sleep(self, _seconds: float) -> None: ...

    sides = argparse.Namespace(
        ours=argparse.Namespace(store=Path()), theirs=argparse.Namespace(store=Path())
    )
    monkeypatch.setattr(script, "compare_many", compared)
    monkeypatch.setattr(script, "SystemClock", Clock)
    monkeypatch.setattr(script, "Runner", lambda _: None)
    monkeypatch.setattr(script, "records_of", lambda _: {"1z": [object()]})
    monkeypatch.setattr(script, "log_differences", lambda *_: [difference] * in_logs)
    options = script.options_of([*words, "--pairs", "2", "--shrink", "0"])
    assert script.many(lambda _: nullcontext(sides), options) == status


def test_after_so_many_pairs_both_start_anew_and_the_report_counts_all(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def compared(
        _runner: object, _ledger: object, sequences: Iterator[tuple[str, object]], *_: object,
        told: Callable[[Report], None], **__: object,
    ) -> Report:  # fmt: skip
        report = Report()
        for seed, _steps in sequences:
            report.pairs += 1
            report.drawn_in["X"] += 1
            report.suffixes[seed] = seed
            told(report)
        return report

    starts = []

    def start(_: object) -> AbstractContextManager[argparse.Namespace]:
        starts.append("started")
        return nullcontext(argparse.Namespace())

    monkeypatch.setattr(script, "FRESH_AFTER", 100)
    monkeypatch.setattr(script, "compare_many", compared)
    monkeypatch.setattr(script, "Runner", lambda _: None)
    assert script.many(start, script.options_of(["--pairs", "250"])) == 0
    assert len(starts) == 3
    told = capsys.readouterr().out
    assert "200 pairs, 0 differ" in told
    assert "250 pairs of seeds" in told
    assert "   250 X" in told
