"""Reads `plain_acl.yml` and the files in the folder `acl` beside it, and looks for changes (Y-20).

A file that cannot be used when the broker starts lets it not start; later everything stays as it
was, and the log says why. The content is in no log: it has secrets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import structlog

from pocketmq.broker.access.plain.accounts import PlainAcl, PlainAclError
from pocketmq.broker.subject import Service
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import ConfigError, MissingToolError
from pocketmq.runtime.periodic import PeriodicService

log = structlog.get_logger()

LOOK_S: Final = 5.0
"""Of the broker's clock; RocketMQ's FileWatchService."""

FOLDER: Final = "acl"
_SUFFIXES: Final = (".yml", ".yaml")


class PlainAclFiles(Service):
    """Hands over what the files say, at the start and after each change.

    Args:
        path: The default file; `acl/` beside it may have more.
        clock: When to look.
        use: Gets what they say.
    """

    def __init__(self, path: Path, clock: Clock, use: Callable[[PlainAcl], None]) -> None:
        self._path = path
        self._use = use
        self._seen: dict[Path, bytes] = {}
        self._watch = PeriodicService("plain acl", clock, LOOK_S, self.look)

    async def load(self) -> None:
        """See `Service`.

        Raises:
            ConfigError: A file makes no sense.
            MissingToolError: PyYAML is not installed.
        """
        self._seen = await asyncio.to_thread(contents, self._path)
        try:
            self._use(PlainAcl.of(parsed(self._seen)))
        except PlainAclError as exc:
            raise ConfigError("plain_acl_file", f"{self._path}: {exc}") from exc

    async def start(self) -> None:
        self._watch.start()

    async def stop(self) -> None:
        await self._watch.stop()

    async def look(self) -> None:
        """Use the files if they have changed; if they cannot be used, all stays as it was."""
        try:
            found = await asyncio.to_thread(contents, self._path)
            if found == self._seen:
                return
            self._seen = found
            self._use(PlainAcl.of(parsed(found)))
        except (ConfigError, PlainAclError) as exc:
            log.error("acl.refused", reason=str(exc), what_now="accounts stay as they were")
        else:
            log.info("acl.loaded", files=[str(each) for each in found])


def contents(path: Path) -> dict[Path, bytes]:
    """The files that there are, those of the folder first; it blocks.

    Raises:
        ConfigError: One cannot be read.
    """
    folder = path.parent / FOLDER
    found: dict[Path, bytes] = {}
    for each in (*sorted(folder.rglob("*")), path):
        if each.suffix not in _SUFFIXES or not each.is_file():
            continue
        try:
            found[each] = each.read_bytes()
        except FileNotFoundError:
            continue  # gone between the two looks
        except OSError as exc:
            raise ConfigError("plain_acl_file", f"{each}: {exc.strerror or exc}") from exc
    return found


def parsed(files: Mapping[Path, bytes]) -> list[Mapping[str, Any]]:
    """What the files hold; an empty one holds nothing.

    Raises:
        MissingToolError: PyYAML is not installed.
        PlainAclError: One is no YAML, or has no names on top.
    """
    try:
        import yaml
    except ImportError as exc:
        raise MissingToolError(
            "PyYAML", "ACL 1.0 (plain_acl.yml)", "pip install 'pocketmq[acl]'"
        ) from exc
    found: list[Mapping[str, Any]] = []
    for path, content in files.items():
        try:
            data = yaml.safe_load(content)
        except (yaml.YAMLError, ValueError, RecursionError) as exc:  # 2024-13-45 is no date
            # PyYAML's text quotes the line, which may be one with a secret.
            mark = getattr(exc, "problem_mark", None)
            at = "" if mark is None else f", line {mark.line + 1}"
            raise PlainAclError(f"{path} is no YAML{at}") from None
        if data is None:
            continue
        if not isinstance(data, dict):
            raise PlainAclError(f"{path} has no names on top")
        found.append(data)
    return found
