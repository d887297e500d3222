"""Copies of a cluster's data: each broker's store as it is on the disk, each nameserver's KV file.

    FOLDER/snapshot.json
    FOLDER/broker-a/            a plain store of RocketMQ: commitlog/, consumequeue/, config/, ...
    FOLDER/nameserver-1/kvConfig.json

Users and rules of a broker, `config/access.json`, hold passwords: they are part of a snapshot only
where that is asked for. Without them, a load leaves brokers the users that they have. With them,
the user by whom the cluster is steered keeps the key that it has: a snapshot of another cluster
would lock out whoever loads it.

A broker is stopped in order before its store is copied, and started again afterwards: the copy is
clean, with all tables saved. Its clients find it again by themselves, as after any restart.
A kill leaves all roles with what they had, or gives all of them what was to come:
`pocketmq.runtime.files.replaced_together`.

What replicas and controllers hold belongs together: one that runs on would elect another master, or
bring what it holds to those that begin anew. So data is replaced and removed while all of them are
stopped, and copied so where there are controllers.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from pocketmq.cluster.folder import MADE_FILE
from pocketmq.cluster.steering.errors import WrongClusterError
from pocketmq.cluster.steering.roles import Roles
from pocketmq.protocol.bodies.access import AccessTable, UserInfo
from pocketmq.protocol.body import decode_body, encode_body
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.errors import BadRequestError
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.errors import CallerError, DiskError
from pocketmq.runtime.files.new_folders import make_lasting
from pocketmq.runtime.files.replaced_folder import rename, sync, sync_tree
from pocketmq.runtime.files.replaced_together import (
    coming_folder,
    commit,
    take_own,
)

FILE = "snapshot.json"
KV_FILE = "kvConfig.json"
SECRETS: Final = frozenset({"config/access.json", "config/access.json.bak", MADE_FILE})
"""Files of a broker with passwords, and which users the cluster has made there."""

_CHUNK_BYTES = 1024 * 1024


class SnapshotInfo(msgspec.Struct, forbid_unknown_fields=True):
    """What a snapshot holds."""

    name: str
    saved_ms: int
    """Protocol time."""
    roles: list[str]
    bytes: int
    """That its files take on the disk."""


class SnapshotError(CallerError):
    """There is no such snapshot, or one is there already; the message says what to do."""


Again = Callable[[str], Awaitable[None]]
Work = Callable[[str], None]


class Snapshots:
    """Saves and brings back the data of one cluster.

    Args:
        roles: Whose data it is.
        start: Starts a role that was stopped here.
    """

    def __init__(self, roles: Roles, start: Again) -> None:
        self._roles = roles
        self._start = start

    def folder(self, name: str) -> Path:
        """Where a snapshot of this name lies.

        Raises:
            SnapshotError: It is no name.
        """
        # The name becomes a folder's: no separators, no hidden folders, nothing that leads
        # elsewhere.
        plain = name.replace("-", "").replace("_", "").replace(".", "")
        if not plain.isascii() or not plain.isalnum() or len(name) > 64 or name.startswith("."):
            raise SnapshotError(
                f"{name!r} cannot be the name of a snapshot; use at most 64 letters, digits, "
                "dots, dashes and underscores, and no dot at the start"
            )
        return self._roles.data / "snapshots" / name

    def all(self) -> list[SnapshotInfo]:
        """The snapshots in the cluster's data folder, oldest first."""
        folder = self._roles.data / "snapshots"
        found = [read_info(path.parent) for path in folder.glob(f"*/{FILE}")]
        return sorted(found, key=lambda each: (each.saved_ms, each.name))

    async def save(self, folder: Path, time_ms: int, *, with_secrets: bool = False) -> SnapshotInfo:
        """Copy all data into a new folder.

        Args:
            folder: Is made; it may be there, and empty.
            time_ms: The cluster's time.
            with_secrets: Also users and rules, with passwords.

        Raises:
            SnapshotError: The folder is not empty.
            WrongClusterError: A role is frozen.
            DiskError: It cannot be written; what was begun is removed.
        """
        # A frozen role cannot be stopped properly, and its files may be half written.
        self._need_no_frozen()
        if _has_files(folder):
            raise SnapshotError(
                f"{folder} is not empty; choose another name, or remove this folder"
            )
        try:
            # With brokers stopped one by one, controllers would elect another master.
            each = self._together if self._of("controller") else self._one_by_one
            make_lasting(folder)
            leave_out = frozenset() if with_secrets else SECRETS
            await each(lambda name: self._copy(name, folder, leave_out=leave_out))
            # Its file says that it is whole: so that is true of what a power cut leaves, too.
            await asyncio.to_thread(sync_tree, folder)
            info = SnapshotInfo(folder.name, time_ms, self._roles.names, _used(folder))
            written = folder / f".{FILE}"
            written.write_bytes(msgspec.json.encode(info))
            sync(written)
            rename(written, folder / FILE)
        except BaseException as exc:
            # Half a snapshot must neither be found nor occupy the name.
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            if isinstance(exc, OSError):
                raise DiskError(folder, exc.strerror or str(exc)) from exc
            raise
        return info

    async def load(self, folder: Path) -> SnapshotInfo:
        """Put the data of a snapshot in place of what the roles have.

        Raises:
            SnapshotError: There is none, or it is of other roles.
            WrongClusterError: A role is frozen.
            DiskError: It cannot be copied; the roles keep what they have. Or it cannot be put in
                place; then it is when it is loaded again, or at the next start of each role.
        """
        self._need_no_frozen()
        info = read_info(folder)
        # Otherwise some roles would keep data that does not fit the others' new data.
        if set(info.roles) != set(self._roles.names):
            raise SnapshotError(
                f"snapshot {info.name} has the roles {', '.join(info.roles)}, but this cluster "
                f"has the roles {', '.join(self._roles.names)}; load it into a cluster with the "
                "same roles"
            )
        await self._replace(lambda beside: self._copy_all(folder, beside))
        return info

    async def reset(self) -> None:
        """Start all roles anew, without any data.

        Raises:
            WrongClusterError: A role is frozen.
            DiskError: See `load`.
        """
        self._need_no_frozen()
        await self._replace(lambda _beside: None)

    # -- inside -----------------------------------------------------------------------------

    def _need_no_frozen(self) -> None:
        frozen = [name for name in self._roles.names if self._roles.state(name) == "frozen"]
        if frozen:
            raise WrongClusterError(f"{', '.join(frozen)} is frozen; thaw it first")

    def _of(self, role: str) -> list[str]:
        return [name for name in self._roles.names if self._roles.role(name) == role]

    async def _one_by_one(self, work: Work) -> None:
        for name in self._with_data:
            await self._at_rest(name, partial(work, name))

    async def _together(self, work: Work) -> None:
        """Do something with each role while brokers and controllers are all stopped."""
        for name in self._of("nameserver"):  # each alone: those that run keep the manual time
            await self._at_rest(name, partial(work, name))
        controllers, brokers = self._of("controller"), self._of("broker")
        # Only the roles that ran start again.
        run = {name for name in controllers + brokers if self._roles.state(name) == "running"}
        try:
            for names in (brokers, controllers):
                await asyncio.gather(
                    *(self._roles.stop_role(name) for name in names if name in run)
                )
            for name in controllers + brokers:
                await asyncio.to_thread(work, name)
        finally:
            # Also after an error, so that the cluster runs again with its present data.
            for name in controllers:
                if name in run:
                    await self._start(name)
            # Without a leading controller brokers would wait at their start.
            if run.intersection(controllers):
                await self._roles.wait_for_controllers()
            for name in brokers:  # masters before their slaves
                if name in run:
                    await self._start(name)

    async def _at_rest(self, name: str, work: Callable[[], None]) -> None:
        """Do something while a role is stopped; one that had ended stays so."""
        was_running = self._roles.state(name) == "running"
        if was_running:
            await self._roles.stop_role(name)
        try:
            # In a thread, since copying takes seconds in which the control address has to answer.
            await asyncio.to_thread(work)
        finally:
            if was_running:
                await self._start(name)

    @property
    def _with_data(self) -> list[str]:
        """The roles that keep something. A proxy keeps nothing, and is not stopped for a load: a
        folder for it would never be taken, and the next start would finish the load once more."""
        return [each for each in self._roles.names if self._roles.role(each) != "proxy"]

    def _copy(
        self,
        name: str,
        folder: Path,
        data: Path | None = None,
        leave_out: Collection[str] = (),
    ) -> None:
        """Copy a role's files out of `data`, by default the cluster's own."""
        root = (data or self._roles.data) / name
        for source in self._files(name, root):
            if source.relative_to(root).as_posix() in leave_out:
                continue
            target = folder / name / source.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            copy_sparse(source, target)

    def _copy_all(self, snapshot: Path, folder: Path) -> None:
        for name in self._with_data:
            self._copy(name, folder, snapshot)
            if not any((snapshot / name / each).exists() for each in SECRETS):
                self._keep_secrets(name, folder)
            elif self._roles.credentials is not None:
                for each in SECRETS - {MADE_FILE}:
                    _admit(folder / name / each, self._roles.credentials)

    def _keep_secrets(self, name: str, folder: Path) -> None:
        """Let a broker have the users that it has, beside the data of a snapshot without any."""
        for each in SECRETS:
            source, target = self._roles.data / name / each, folder / name / each
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                copy_sparse(source, target)

    async def _replace(self, fill: Callable[[Path], None]) -> None:
        """Give every role what is filled in beside the present data; all of them, or none."""
        data = self._roles.data
        try:
            # Beside the data, so that the final rename stays within one file system.
            beside = await asyncio.to_thread(coming_folder, data)
            await asyncio.to_thread(self._decide, beside, fill)
        except OSError as exc:
            raise DiskError(data, exc.strerror or str(exc)) from exc

        def take(name: str) -> None:  # from here on a start would do it, too; it takes no space
            take_own(data / name)

        await self._together(take)

    def _decide(self, beside: Path, fill: Callable[[Path], None]) -> None:
        try:
            for name in self._with_data:
                (beside / name).mkdir(mode=0o700)
            fill(beside)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
        # From here on the load is completed, even after a kill; before, nothing has changed.
        commit(beside)

    def _files(self, name: str, root: Path) -> Iterator[Path]:
        if self._roles.role(name) == "nameserver":
            kv_file = root / KV_FILE
            return iter([kv_file] if kv_file.exists() else [])
        # `lock` belongs to the process that has the store open.
        return (path for path in sorted(root.rglob("*")) if path.is_file() and path.name != "lock")


def read_info(folder: Path) -> SnapshotInfo:
    """What a folder's snapshot holds.

    Raises:
        SnapshotError: It is none.
    """
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=SnapshotInfo)
    except (OSError, msgspec.DecodeError) as exc:
        raise SnapshotError(
            f"{folder} holds no snapshot; `pocketmq snapshot list` shows all snapshots"
        ) from exc


def _admit(path: Path, steering: Credentials) -> None:
    """Give the user by whom the cluster is steered its key in a broker's table of users.

    A table that cannot be read stays as it is: the broker says what is wrong with it.
    """
    try:
        table = decode_body(path.read_bytes(), AccessTable, Encoding.JSON)
    except (FileNotFoundError, BadRequestError):
        return
    own = UserInfo(
        username=steering.access_key,
        password=steering.secret_key,
        user_type="Super",
        user_status="enable",
    )
    # Another cluster's steering user would lock out this cluster's own.
    others = [each for each in table.users if each.username != steering.access_key]
    content = encode_body(replace(table, users=[*others, own]), Encoding.JSON)
    with open(path, "wb", opener=_private) as file:
        file.write(content)


def copy_sparse(source: Path, target: Path) -> None:
    """Copy a file with its length and its holes: a log of 1 GiB holds little at first."""
    with source.open("rb") as reading, open(target, "wb", opener=_private) as writing:
        length = os.fstat(reading.fileno()).st_size
        os.ftruncate(writing.fileno(), length)
        at = 0
        while at < length:
            # Only data between holes is read: a log file is preallocated at its full length.
            begin, end = _next_data(reading.fileno(), at, length)
            while begin < end:
                data = os.pread(reading.fileno(), min(_CHUNK_BYTES, end - begin), begin)
                if not data:
                    return
                # Zeros become a hole: preallocated files are full of them if the system reports no
                # holes.
                if data.strip(b"\0"):
                    os.pwrite(writing.fileno(), data, begin)
                begin += len(data)
            at = end


def _next_data(descriptor: int, at: int, length: int) -> tuple[int, int]:
    """Where the next bytes that are no hole begin and end."""
    if not hasattr(os, "SEEK_DATA"):
        return at, length
    try:
        begin = os.lseek(descriptor, at, os.SEEK_DATA)
        return begin, os.lseek(descriptor, begin, os.SEEK_HOLE)
    except OSError:  # only a hole is left, or the file system cannot tell
        return (length, length) if _can_tell(descriptor) else (at, length)


def _can_tell(descriptor: int) -> bool:
    try:
        os.lseek(descriptor, 0, os.SEEK_HOLE)
    except OSError:
        return False
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _has_files(folder: Path) -> bool:
    return folder.exists() and any(folder.iterdir())


def _used(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
