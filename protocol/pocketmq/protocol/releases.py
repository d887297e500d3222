"""Which request codes a release of RocketMQ knows, by their `since` and `until`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from pocketmq.protocol.codes import RequestCode

Knows: TypeAlias = Callable[[int], bool]
"""Whether a request code has a meaning."""


def everything(_code: int) -> bool:
    """All of them."""
    return True


def known_in(release: tuple[int, int, int]) -> Knows:
    """Those of a release, PocketMQ's own included."""
    codes = frozenset(
        int(code)
        for code in RequestCode
        if (not code.since[0].isdigit() or _release(code.since) <= release)
        and (not code.until or release <= _release(code.until))
    )
    return codes.__contains__


def _release(since: str) -> tuple[int, ...]:
    return tuple(int(part) for part in since.split("."))


_FIRST_REGULAR: Final = 194
"""Earlier releases, from before 2014, are not numbered evenly."""
_HIGHEST: Final = 612
_NAMED: Final = re.compile(r"V(\d)_(\d)_(\d)(_SNAPSHOT)?", re.ASCII)


def version_number(major: int, minor: int, patch: int) -> int:
    """The number that frames of a release since 3.2.6 carry: 479 of 5.3.3."""
    return 2 * (100 * major + 10 * minor + patch) - 587


def version_name(version: int) -> str:
    """What RocketMQ calls the version of a frame: `V5_3_3` of 479; the number of an older one."""
    if version >= _HIGHEST:
        return "HIGHER_VERSION"
    if version < _FIRST_REGULAR:
        return str(version)
    number, is_snapshot = (version + 588) // 2, version % 2 == 0
    name = f"V{number // 100}_{number // 10 % 10}_{number % 10}"
    return f"{name}_SNAPSHOT" if is_snapshot else name


def version_named(name: str) -> int | None:
    """The number of a version that is called so by `version_name`; None: it is no such name."""
    if name == "HIGHER_VERSION":
        return _HIGHEST
    found = _NAMED.fullmatch(name)
    if found is None:
        return int(name) if name.isascii() and name.isdigit() and len(name) < 10 else None
    major, minor, patch = (int(part) for part in found.groups()[:3])
    return version_number(major, minor, patch) - (found[4] is not None)
