"""The faults that were thought of by hand can be planted: their texts stand where they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.planted import ROOT, Planted, read_planted


# At night: who changes these files need not know of it, and `planted.py` names what is stale.
@pytest.mark.nightly
def test_each_fault_stands_in_its_file_once_and_has_tests() -> None:
    faults = read_planted()
    assert len({each.name for each in faults}) == len(faults) > 100
    for fault in faults:
        text = (ROOT / fault.file).read_text(encoding="utf-8")
        changed = fault.applied_to(text)
        assert changed != text
        assert changed.count("\n") == text.count("\n"), fault.name
        assert fault.test_files(ROOT), fault.name
        assert all(Path(ROOT / name).exists() for name in fault.tests), fault.name
    assert sum(bool(each.same) for each in faults) <= len(faults) // 10


def test_a_fault_moves_no_line_behind_it() -> None:
    fault = Planted("one", "f", "    a()\n    b()\n", "    b()\n", [])
    assert fault.applied_to("def f():\n    a()\n    b()\n    c()\n").splitlines() == [
        "def f():", "    b()", "", "    c()",
    ]  # fmt: skip
