"""The faults that were thought of by hand can be planted: their texts stand where they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from mutants.planted import ROOT, Planted, read_planted, try_out


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


def test_a_fault_counts_as_noticed_only_by_tests_that_pass_without_it(tmp_path: Path) -> None:
    (tmp_path / "part" / "pocketmq").mkdir(parents=True)
    (tmp_path / "part" / "pocketmq" / "planted_in.py").write_text("def one():\n    return 1\n")
    (tmp_path / "conftest.py").write_text(
        "def pytest_addoption(parser):\n    parser.addoption('--loops')\n"
    )
    checks = "from pocketmq.planted_in import one\n\ndef test_one():\n    assert one() == "
    for name, expected in (("sound", 1), ("blind", "one()"), ("broken", 3)):
        (tmp_path / f"test_{name}.py").write_text(f"{checks}{expected}\n")

    def fault(name: str) -> Planted:
        file = "part/pocketmq/planted_in.py"
        return Planted(name, file, "return 1", "return 2", [f"test_{name}.py"])

    assert try_out([fault("sound"), fault("blind")], tmp_path) == ["blind"]
    with pytest.raises(RuntimeError, match=r"test_broken\.py.* without a fault"):
        try_out([fault("sound"), fault("broken")], tmp_path)
