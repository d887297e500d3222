"""The two modules that Spark finds by name, as this tree has them.

They lie beside the package, so an editable install copies them. After a change of them, or a
move of what they import, tests would run the old copies; and a copy may be linked with that of
another clone. So one that differs is replaced by a new file.
"""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

TREE = Path(__file__).resolve().parents[2] / "pipeline"


def renew(installed: Path, tree: Path = TREE) -> list[str]:
    """Names of the copies that were old, and are not any more.

    Args:
        installed: The folder of installed packages; what is not installed there stays away.
        tree: Where the modules are.
    """
    renewed = []
    for path in sorted(tree.glob("pyspark_*.py")):
        copy = installed / path.name
        if copy.is_file() and copy.read_bytes() != path.read_bytes():
            part = copy.with_name(f".{path.name}.{os.getpid()}")
            part.write_bytes(path.read_bytes())
            part.replace(copy)
            renewed.append(path.name)
    return renewed


def renew_own() -> list[str]:
    """`renew` in the Python that runs the tests."""
    return renew(Path(sysconfig.get_path("purelib")))
