"""Writers of the tools: what a supervisor keeps, and the pipeline's files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from durability.harness import Say, Writer, broken, versions
from pocketmq.cluster.steering.access import ClusterAccess
from pocketmq.cluster.steering.roles import Roles
from pocketmq.cluster.steering.snapshots import SnapshotError, Snapshots
from pocketmq.operation.tls.certificate import kept_certificate
from pocketmq.operation.tls.contexts import server_context
from pocketmq.pipeline.jobs.output import SUFFIXES, write_rows
from pocketmq.pipeline.jobs.replay_pace import ReplayState
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.files.replaced_together import finish_together, take_own

# -- snapshots -------------------------------------------------------------------------------------

_ROLES: Final = ["nameserver-1", "broker-a"]
_FILES: Final = ["nameserver-1/kvConfig.json", "broker-a/commitlog/0"]


def _filled(data: Path, text: str) -> None:
    for file in _FILES:
        path = data / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _found(data: Path) -> set[str]:
    """The texts of all roles: one, or they do not belong together."""
    return {(data / file).read_text() if (data / file).exists() else "missing" for file in _FILES}


def _snapshots(data: Path) -> Snapshots:
    """Of roles that are started again by themselves, as processes are."""
    stopped: set[str] = set()

    async def stop_role(name: str) -> None:
        stopped.add(name)

    async def start(name: str) -> None:
        stopped.discard(name)
        take_own(data / name)

    roles = SimpleNamespace(
        data=data,
        names=_ROLES,
        role=lambda name: name.partition("-")[0],
        state=lambda name: "ended" if name in stopped else "running",
        stop_role=stop_role,
    )
    return Snapshots(cast(Roles, roles), start)


def _old_data(folder: Path) -> None:
    _filled(folder / "data", "old")


async def _snapshot_lives(folder: Path, say: Say) -> None:
    snapshots = _snapshots(folder / "data")
    await snapshots.save(snapshots.folder("one"), 1)
    say("saved")


async def _snapshot_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    data = folder / "data"
    snapshots = _snapshots(data)
    assert _found(data) == {"old"}
    shown = [info.name for info in snapshots.all()]
    if "saved" in promises:
        assert shown == ["one"], shown
    _filled(data, "changed since")
    try:
        await snapshots.load(snapshots.folder("one"))
    except SnapshotError:
        assert not shown
        assert _found(data) == {"changed since"}
    else:
        assert _found(data) == {"old"}, f"a snapshot that is not whole was loaded: {_found(data)}"


SNAPSHOT: Final = Writer(
    "a snapshot that is saved",
    ("cluster/steering/snapshots.py",),
    _snapshot_lives,
    _snapshot_is_whole,
    (
        broken(
            "cluster/steering/snapshots.py", "await asyncio.to_thread(sync_tree, folder)", "pass"
        ),
    ),
    prepare=_old_data,
)


def _with_snapshot(folder: Path) -> None:
    data = folder / "data"
    _filled(data, "old")
    one = data / "snapshots" / "one"
    for name in _ROLES:
        shutil.copytree(data / name, one / name)
    (one / "snapshot.json").write_text(
        json.dumps({"name": "one", "saved_ms": 1, "roles": _ROLES, "bytes": 3})
    )
    _filled(one, "new")


async def _load_lives(folder: Path, say: Say) -> None:
    snapshots = _snapshots(folder / "data")
    await snapshots.load(snapshots.folder("one"))
    say("loaded")


async def _load_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    data = folder / "data"
    finish_together(data)
    found = _found(data)
    assert found in ({"old"}, {"new"}), found
    if promises:
        assert found == {"new"}, found


LOAD: Final = Writer(
    "a snapshot that is loaded",
    ("runtime/files/replaced_folder.py", "runtime/files/replaced_together.py"),
    _load_lives,
    _load_is_whole,
    (
        broken("runtime/files/replaced_together.py", "sync_tree(coming)", "pass"),
        broken("runtime/files/replaced_together.py", "sync(written)", "pass"),
        broken("runtime/files/replaced_folder.py", "sync(target.parent)", "pass"),
    ),
    prepare=_with_snapshot,
)

# -- the pipeline ----------------------------------------------------------------------------------

_QUEUES: Final = [MessageQueue("T", "b", number) for number in range(2)]


def _read(path: Path) -> pa.Table:
    """One file, whatever its name says of partitions."""
    with path.open("rb") as file:
        return pq.read_table(file)


async def _replay_lives(folder: Path, say: Say) -> None:
    state = ReplayState("S", "T")
    for number in range(1, 5):
        state.done = dict.fromkeys(_QUEUES, number)
        say(("asked", number))
        state.save(folder / "states" / "replay.json")
        say(("safe", number))


async def _replay_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    state = ReplayState.load(folder / "states" / "replay.json", "S", "T")
    done = {} if state is None else state.done
    assert set(done) in (set(), set(_QUEUES))
    for number in set(done.values()) or {0}:
        versions(promises).check(number)


REPLAY: Final = Writer(
    "the state of a replay",
    ("pipeline/jobs/replay_pace.py",),
    _replay_lives,
    _replay_is_whole,
    (
        broken("pipeline/jobs/replay_pace.py", "sync(part)", "pass"),
        broken("pipeline/jobs/replay_pace.py", "rename(part, path)", "part.rename(path)"),
    ),
)


@dataclass(frozen=True)
class ResultRow:
    """A row of a job's result."""

    number: int
    text: str


async def _results_live(folder: Path, say: Say) -> None:
    for number in range(1, 4):
        rows = [ResultRow(number, "x" * 200) for _ in range(5)]
        say(("asked", number))
        for suffix in SUFFIXES:
            write_rows(rows, folder / "out" / f"result{suffix}", ResultRow)
        say(("safe", number))


async def _results_are_whole(folder: Path, promises: Sequence[Any]) -> None:
    for suffix in SUFFIXES:
        path = folder / "out" / f"result{suffix}"
        numbers = [0] * 5
        if path.exists():
            if suffix == ".parquet":
                rows = _read(path).to_pylist()
            elif suffix == ".json":
                rows = json.loads(path.read_text())
            else:
                rows = [json.loads(line) for line in path.read_text().splitlines()]
            numbers = [row["number"] for row in rows]
        assert len(numbers) == 5, numbers
        assert len(set(numbers)) == 1, numbers
        versions(promises).check(numbers[0])


RESULTS: Final = Writer(
    "a job's result",
    ("pipeline/jobs/output.py",),
    _results_live,
    _results_are_whole,
    (
        broken("pipeline/jobs/output.py", "sync(part)", "pass"),
        broken("pipeline/jobs/output.py", "rename(part, path)", "part.rename(path)"),
    ),
)

# -- a cluster's certificate -----------------------------------------------------------------------

_CERTIFICATE: Final = "operation/tls/certificate.py"


async def _certificate_lives(folder: Path, say: Say) -> None:
    pair = kept_certificate(folder / "data" / "tls")
    say(pair.certificate.read_bytes())


async def _certificate_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    pair = kept_certificate(folder / "data" / "tls")
    server_context(pair)  # raises where key and certificate are not whole, or not of one pair
    assert not promises or promises == [pair.certificate.read_bytes()]


CERTIFICATE: Final = Writer(
    "a cluster's certificate",
    (_CERTIFICATE,),
    _certificate_lives,
    _certificate_is_whole,
    (
        broken("runtime/files/private_file.py", "sync(coming)", "pass"),
        broken("runtime/files/private_file.py", "rename(coming, path)", "coming.rename(path)"),
        broken(
            "operation/tls/certificate.py", "make_lasting(folder)", "folder.mkdir(parents=True)"
        ),
    ),
)

# -- the key of a cluster with users ---------------------------------------------------------------


def _kept_key(folder: Path) -> Credentials:
    access = ClusterAccess(users={"shop": "secret"}).kept_in(folder / "data")
    return access.steering


async def _key_lives(folder: Path, say: Say) -> None:
    say(_kept_key(folder))


async def _key_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    found = _kept_key(folder)  # raises where the file is torn
    assert not promises or promises == [found]


KEY: Final = Writer(
    "the key of a cluster with users",
    ("runtime/files/private_file.py",),
    _key_lives,
    _key_is_whole,
    (
        broken("runtime/files/private_file.py", "sync(coming)", "pass"),
        broken("runtime/files/private_file.py", "rename(coming, path)", "coming.rename(path)"),
    ),
)

TOOLS: Final = (SNAPSHOT, LOAD, REPLAY, RESULTS, CERTIFICATE, KEY)
