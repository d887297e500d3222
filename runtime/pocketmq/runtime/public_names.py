"""The public names of a package, each imported from its module when it is first used.

A package's `__init__.py` says them twice, once for type checkers and once for Python;
tests/architecture/test_public_names.py holds both together:

    if TYPE_CHECKING:
        from pocketmq.client.admin.admin import Admin as Admin
    else:
        __all__, __dir__, __getattr__ = on_first_use(
            __name__, {"pocketmq.client.admin.admin": ["Admin"]}
        )

It imports little: a role's process passes through here before its logs are set up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def on_first_use(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[list[str], Callable[[], list[str]], Callable[[str], object]]:
    """The package's `__all__`, `__dir__` and `__getattr__`.

    Args:
        package: Its `__name__`.
        names: Module -> the public names that it defines.
    """
    homes = {name: module for module, defined in names.items() for name in defined}

    def find(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(home), name)
        setattr(sys.modules[package], name, found)  # the next use finds it there
        return found

    return sorted(homes), lambda: sorted(homes), find
