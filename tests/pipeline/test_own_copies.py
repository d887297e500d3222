"""An editable install's copies of the modules that Spark finds by name are those of the tree."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from support.own_copies import TREE, renew


def test_a_copy_that_is_old_is_replaced_and_its_link_elsewhere_is_not(tmp_path: Path) -> None:
    tree, installed, other = (tmp_path / name for name in ("tree", "installed", "other"))
    for folder in (tree, installed, other):
        folder.mkdir()
    for name in ("pyspark_a.py", "pyspark_b.py", "pyspark_away.py"):
        (tree / name).write_text("new")
    (other / "pyspark_a.py").write_text("old")
    (installed / "pyspark_a.py").hardlink_to(other / "pyspark_a.py")
    (installed / "pyspark_b.py").write_text("new")
    assert renew(installed, tree) == ["pyspark_a.py"]
    assert (installed / "pyspark_a.py").read_text() == "new"
    assert (other / "pyspark_a.py").read_text() == "old"
    assert not (installed / "pyspark_away.py").exists()


def test_what_spark_finds_here_is_what_the_tree_has() -> None:
    for path in TREE.glob("pyspark_*.py"):
        copy = Path(sysconfig.get_path("purelib"), path.name)
        assert not copy.exists() or copy.read_text() == path.read_text()
