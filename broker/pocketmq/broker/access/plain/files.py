"""Reads and writes `plain_acl.yml` and the files in the folder `acl` beside it (Y-20, Y-25).

A file that cannot be used when the broker starts lets it not start; later everything stays as it
was, and the log says why. The content is in no log: it has secrets.

A change reads the files, changes one and replaces it as a whole: comments go, as in RocketMQ. It
counts at once, and one that would leave accounts that cannot be used is not made.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import structlog

from pocketmq.broker.access.plain.accounts import PlainAcl, PlainAclError
from pocketmq.broker.access.plain.changes import Contents, FileVersion, next_version
from pocketmq.broker.errors import RequestRefusedError
from pocketmq.broker.subject import Service
from pocketmq.protocol.codes import ResponseCode
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.errors import ConfigError, MissingToolError
from pocketmq.runtime.files.text_files import OsTextFiles
from pocketmq.runtime.periodic import PeriodicService

log = structlog.get_logger()

LOOK_S: Final = 5.0
"""Of the broker's clock; RocketMQ's FileWatchService."""

MOST_WAITING: Final = 100
"""Changes that wait for those before them; a further one is refused."""

FOLDER: Final = "acl"
_SUFFIXES: Final = (".yml", ".yaml")

Change: TypeAlias = Callable[[Contents], Path]
"""Changes what the files hold, and says which of them it has changed; what it raises is told."""
Done: TypeAlias = Callable[[Exception | None], None]
"""Told when a change is in its file, or why it is not."""


class PlainAclFiles(Service):
    """Hands over what the files say, at the start and after each change.

    Args:
        path: The default file; `acl/` beside it may have more.
        clock: When to look, and the time of changes.
        use: Gets what they say.
    """

    def __init__(self, path: Path, clock: Clock, use: Callable[[PlainAcl], None]) -> None:
        self.path = Path(os.path.abspath(path))
        """The default file."""
        self.versions: dict[Path, FileVersion] = {}
        """Of the files that hold something."""
        self._clock = clock
        self._use = use
        self._seen: dict[Path, bytes] = {}
        self._watch = PeriodicService("plain acl", clock, LOOK_S, self.look)
        self._alone = asyncio.Lock()
        """Held while files are read or written."""
        self._changes: deque[tuple[Change, Done]] = deque()
        self._changing: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """See `Service`.

        Raises:
            ConfigError: A file makes no sense.
            MissingToolError: PyYAML is not installed.
        """
        try:
            found, files = await asyncio.to_thread(_read, self.path)
            self._take(found, files)
        except PlainAclError as exc:
            raise ConfigError("plain_acl_file", f"{self.path}: {exc}") from exc

    async def start(self) -> None:
        self._watch.start()

    async def stop(self) -> None:
        await self._watch.stop()
        if self._changing is not None:
            await self._changing

    async def look(self) -> None:
        """Use the files if they have changed; if they cannot be used, all stays as it was."""
        async with self._alone:
            try:
                found = await asyncio.to_thread(contents, self.path)
                if found == self._seen:
                    return
                self._seen = found
                self._take(found, await asyncio.to_thread(parsed_by_path, found))
            except (ConfigError, PlainAclError) as exc:
                log.error("acl.refused", reason=str(exc), what_now="accounts stay as they were")
            else:
                log.info("acl.loaded", files=[str(each) for each in found])

    def change(self, change: Change, done: Done) -> None:
        """Make a change after those before it, and tell of it when it is in its file.

        Raises:
            RequestRefusedError: Too many wait already.
        """
        # Each reads and writes whole files: who asks faster than that must not fill the memory.
        if len(self._changes) >= MOST_WAITING:
            raise RequestRefusedError(
                ResponseCode.SYSTEM_BUSY,
                f"{len(self._changes)} changes of accounts are already waiting; try again later",
            )
        self._changes.append((change, done))
        if self._changing is None:
            self._changing = asyncio.get_running_loop().create_task(
                self._make_changes(), name="change plain acl"
            )

    async def _make_changes(self) -> None:
        try:
            while self._changes:
                change, done = self._changes.popleft()
                failure: Exception | None = None
                try:
                    await self._make(change)
                except Exception as exc:  # noqa: BLE001 - whoever asked for it is told
                    failure = exc
                try:
                    done(failure)
                except Exception:
                    # Those behind it have nothing to do with it.
                    log.exception("acl.answer_failed")
        finally:
            self._changing = None

    async def _make(self, change: Change) -> None:
        async with self._alone:
            found, files = await asyncio.to_thread(_read, self.path)
            files.setdefault(self.path, {})
            changed = change(files)
            next_version(files[changed], self._clock.time_ms())
            acl = PlainAcl.of(files.values())  # before the write: what cannot be used is not kept
            text = await asyncio.to_thread(_dumped, files[changed])
            await _replace(changed, text)
            self._take({**found, changed: text.encode()}, files, acl)
            log.info("acl.changed", file=str(changed), accounts=len(acl.accounts))

    def _take(self, found: dict[Path, bytes], files: Contents, acl: PlainAcl | None = None) -> None:
        self._use(acl or PlainAcl.of(files.values()))
        self._seen = found
        now_ms = self._clock.time_ms()
        old = self.versions
        self.versions = {}
        for path, content in files.items():
            if content:
                known = old.get(path)
                read_ms = now_ms if known is None or known.counter else known.timestamp
                self.versions[path] = FileVersion.of(content, read_ms)


def _read(path: Path) -> tuple[dict[Path, bytes], Contents]:
    """The files, and what they hold; as `contents` and `parsed_by_path`."""
    found = contents(path)
    return found, parsed_by_path(found)


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
    """What the files hold, without those that hold nothing; see `parsed_by_path`."""
    return [each for each in parsed_by_path(files).values() if each]


def parsed_by_path(files: Mapping[Path, bytes]) -> Contents:
    """What each file holds; a thousand accounts take PyYAML up to a second.

    Raises:
        MissingToolError: PyYAML is not installed.
        PlainAclError: One is no YAML, or has no names on top.
    """
    yaml = _yaml()
    return {path: dict(_parsed(yaml, path, content)) for path, content in files.items()}


def _parsed(yaml: Any, path: Path, content: bytes) -> Mapping[str, Any]:
    try:
        # In C it is eight times faster; PyYAML is also built without.
        data = yaml.load(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as exc:  # 2024-13-45 is no date
        # PyYAML's message quotes the line, which may contain a secret.
        mark = getattr(exc, "problem_mark", None)
        at = "" if mark is None else f", line {mark.line + 1}"
        raise PlainAclError(f"{path} is no YAML{at}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise PlainAclError(f"{path} has no names on top")
    return data


def _dumped(content: Mapping[str, Any]) -> str:
    yaml = _yaml()
    text: str = yaml.dump(
        dict(content),
        Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
        default_flow_style=False,
        sort_keys=False,
        allow_unicode=True,
    )
    return text


async def _replace(path: Path, text: str) -> None:
    """Give a file another content, the old or the new whole whenever the machine stops.

    Raises:
        DiskError: It cannot be written; the old content is still there.
    """
    files = OsTextFiles()
    target = await asyncio.to_thread(os.path.realpath, path)  # a link stays one
    files.make_directory(os.path.dirname(target), lasting=True)
    await files.write_text(f"{target}.tmp", text)
    await files.rename(f"{target}.tmp", target)


def _yaml() -> Any:
    """PyYAML.

    Raises:
        MissingToolError: It is not installed.
    """
    try:
        import yaml
    except ImportError as exc:
        raise MissingToolError(
            "PyYAML", "ACL 1.0 (plain_acl.yml)", "pip install 'pocketmq[acl]'"
        ) from exc
    return yaml
