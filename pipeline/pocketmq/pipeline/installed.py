"""Whether the packages are installed that PocketMQ alone does not bring.

Whoever is called by a user asks here before it imports them, so what is missing is one error with
the line that installs it.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any, Final

from pocketmq.runtime.errors import MissingToolError

_CALLED: Final = {
    "grpc_tools": "grpcio-tools",
    "jsonschema_rs": "jsonschema-rs",
    "numpy": "NumPy",
    "pyarrow": "PyArrow",
}
_OF_SPARK: Final = ("numpy", "pyarrow")
"""Executors need these themselves, so they are never packed."""


def check_installed(needed_for: str, extra: str, *modules: str) -> None:
    """Check that modules can be imported; imports none of them.

    Args:
        needed_for: What needs them, as it begins a sentence.
        extra: Of `pocketmq`; it brings them.
        modules: Top-level ones.

    Raises:
        MissingToolError: One is not there.
    """
    for name in modules:
        if find_spec(name) is None:
            called = _CALLED.get(name, name)
            advice = f"pip install 'pocketmq[{extra}]'"
            # On a cluster the driver may have it, and to install it there would change nothing.
            if _is_task() and name not in _OF_SPARK:
                advice += f", or pack it for executors: `pocketmq pipeline package --with {called}`"
            raise MissingToolError(called, needed_for, advice)


def _is_task() -> bool:
    """Whether this is a task of Spark."""
    pyspark: Any = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.TaskContext.get() is not None


def check_arrow(needed_for: str) -> None:
    """Check that PyArrow and NumPy are installed, with which messages become columns.

    Raises:
        MissingToolError: One is not.
    """
    check_installed(needed_for, "arrow", "pyarrow", "numpy")
