"""Reads histories: a file per process, merged by time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from pocketmq.simulation.histories.judge import HistoryError, Judge, Judgement, Word

_decode = msgspec.json.Decoder(list[Word]).decode


def lines_of(path: Path) -> Iterator[Sequence[Word]]:
    """The lines of one file; an incomplete last one is ignored: its process may have been killed.

    Raises:
        HistoryError: A line cannot be read; the message names file and line.
    """
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield _decode(line)
            except msgspec.MsgspecError as exc:
                if line.endswith(b"\n"):
                    raise HistoryError(f"{path}, line {number}: {exc}") from exc


def merged(paths: Iterable[Path]) -> Iterator[Sequence[Word]]:
    """All lines, ordered by time."""
    return heapq.merge(*map(lines_of, paths), key=_moment)


def judge_files(paths: Iterable[Path]) -> Judgement:
    """Check a history for anomalies.

    Raises:
        HistoryError: A file is not part of a history.
        OSError: A file cannot be read.
    """
    judge = Judge()
    take = judge.take
    for line in merged(paths):
        take(line)
    return judge.judgement()


def _moment(line: Sequence[Word]) -> int:
    return line[1]  # type: ignore[return-value]  # of every kind
