"""Power cuts at every step of everything that is written (fault 6 to 9 for all but the log)."""

from __future__ import annotations

from pathlib import Path

import pytest

from durability.harness import PromiseBrokenError, Writer, cut_everywhere, planted
from durability.table import WRITERS
from simulation.faults import Break

FAULTS = [(writer, breaks) for writer in WRITERS for breaks in writer.faults]


@pytest.mark.parametrize("writer", WRITERS, ids=lambda writer: writer.name)
def test_no_power_cut_breaks_what_a_writer_promised(writer: Writer, tmp_path: Path) -> None:
    cuts = cut_everywhere(writer, tmp_path)
    assert cuts.moments > 5
    assert cuts.images > 5


@pytest.mark.parametrize(
    ("writer", "breaks"),
    FAULTS,
    ids=[f"{writer.name}: {breaks[0].old.strip()}" for writer, breaks in FAULTS],
)
def test_a_planted_fault_of_each_writer_is_found(
    writer: Writer, breaks: tuple[Break, ...], tmp_path: Path
) -> None:
    with planted(breaks), pytest.raises(PromiseBrokenError):
        cut_everywhere(writer, tmp_path, every=4)
