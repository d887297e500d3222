"""The table of writers. A new one is an entry here: `WRITERS`, at the end of this file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from durability.harness import Say, Writer, broken, versions
from durability.tools_table import TOOLS
from pocketmq.broker.controller_mode.identity import Identity, IdentityFiles
from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.store.checkpoint import StoreCheckpoint
from pocketmq.broker.store.disk import OsDisk
from pocketmq.broker.store.rooted_disk import rooted
from pocketmq.broker.tables.json_files import JsonFile
from pocketmq.client.consumer.local_offsets import LocalFileOffsetStore
from pocketmq.client.consumer.offset_table import ReadOffsetType
from pocketmq.controller.journal_file import JournalFile
from pocketmq.controller.raft.messages import Entry, Snapshot, Write
from pocketmq.nameserver.kv_file import KvFile
from pocketmq.protocol.message import MessageQueue
from pocketmq.runtime.text_files import OsTextFiles

_TEXTS = "runtime/text_files.py"
_UNSYNCED = broken(_TEXTS, "os.fsync(file.fileno())", "pass")
_RENAMES_ALONE = broken(
    _TEXTS, "await aiofiles.os.wrap(self.sync_directory)(os.path.dirname(target))", "pass"
)

# -- a controller's journal ------------------------------------------------------------------------

_COMMAND = '{"name":"bröker€€€€€€€€€€€€€€€€"}'
"""Not only ASCII: a cut may part a character."""


def _journal(folder: Path) -> JournalFile:
    return JournalFile(folder / "controller" / "n0", "G", "n0", OsTextFiles())


async def _journal_lives(folder: Path, say: Say) -> None:
    journal = _journal(folder)
    await journal.load()
    term = 0
    for term in range(1, 5):
        entries = [Entry(term, term, _COMMAND)]
        say(("asked", term))
        await journal.write(Write(term, term, "n0", entries))
        say(("safe", term))
    say(("asked", term + 1))
    await journal.write(Write(5, 5, "n1", [Entry(5, 5, "")], Snapshot(4, 4, _COMMAND * 20)))
    say(("safe", term + 1))
    say(("asked", term + 2))
    await journal.write(Write(6, 6, "n2", [Entry(6, 6, _COMMAND)]))
    say(("safe", term + 2))


async def _journal_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    stored = await _journal(folder).load()
    versions(promises).check(stored.term)
    assert stored.vote == {0: "", 5: "n1", 6: "n2"}.get(stored.term, "n0"), stored
    indices = [entry.index for entry in stored.entries]
    assert indices == list(range(stored.snapshot.index + 1, stored.term + 1)), stored
    # What it writes next can be read: a torn line was cut, and did not swallow it.
    await _journal(folder).load()
    following = stored.term + 1
    await _journal(folder).write(Write(1, following, "", [Entry(following, following, "")]))
    assert (await _journal(folder).load()).term == following


JOURNAL: Final = Writer(
    "a controller's journal",
    ("controller/journal_file.py",),
    _journal_lives,
    _journal_is_whole,
    (
        _UNSYNCED,
        broken(
            "controller/journal_file.py",
            "await self._replace(journal.line_of(whole))",
            "pass",
        ),
        broken(
            "controller/journal_file.py",
            "await self._files.rename(beside, str(self.path))",
            "import os; os.replace(beside, str(self.path))",
        ),
    ),
    grain=48,
)

# -- small files that are replaced -----------------------------------------------------------------


async def _kv_lives(folder: Path, say: Say) -> None:
    file = KvFile(folder / "namesrv" / "kvConfig.json")
    for number in range(1, 5):
        say(("asked", number))
        await file.save({"N": {"k": str(number), "long": "x" * 600}})
        say(("safe", number))


async def _kv_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    file = KvFile(folder / "namesrv" / "kvConfig.json")
    table = await file.load()
    versions(promises).check(int(table["N"]["k"]) if table else 0)
    await file.save({"N": {"k": "99"}})
    assert await file.load() == {"N": {"k": "99"}}


KV: Final = Writer(
    "a nameserver's KV file",
    ("nameserver/kv_file.py", "runtime/durable_file.py", "runtime/text_files.py"),
    _kv_lives,
    _kv_is_whole,
    (
        _UNSYNCED,
        _RENAMES_ALONE,
        broken(
            "runtime/durable_file.py",
            "self._files.make_directory(str(self.path.parent), lasting=True)",
            "self._files.make_directory(str(self.path.parent))",
        ),
    ),
)


def _table(folder: Path) -> JsonFile:
    root = folder / "store"
    return JsonFile(root / "config" / "topics.json", rooted(OsDisk(), str(root)))


def _store_is_there(folder: Path) -> None:
    (folder / "store").mkdir()


async def _table_lives(folder: Path, say: Say) -> None:
    file = _table(folder)
    for number in range(1, 5):
        say(("asked", number))
        await file.save({"n": number, "long": ["x" * 20] * 30})
        say(("safe", number))


async def _table_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    found = await _table(folder).load()
    versions(promises).check(found["n"] if found else 0)


TABLE: Final = Writer(
    "a table of a broker",
    ("broker/tables/json_files.py",),
    _table_lives,
    _table_is_whole,
    (_UNSYNCED, _RENAMES_ALONE),
    prepare=_store_is_there,
)

_QUEUES: Final = [MessageQueue("T", "b", number) for number in range(2)]


def _offsets(folder: Path) -> LocalFileOffsetStore:
    return LocalFileOffsetStore(folder / "home" / "offsets", "10.0.0.1@DEFAULT", "G")


async def _offsets_live(folder: Path, say: Say) -> None:
    store = _offsets(folder)
    await store.load()
    for number in range(1, 5):
        for queue in _QUEUES:
            store.table.update(queue, number, increase_only=False)
        say(("asked", number))
        await store.persist_all(_QUEUES)
        say(("safe", number))


async def _offsets_are_whole(folder: Path, promises: Sequence[Any]) -> None:
    store = _offsets(folder)
    await store.load()
    found = [await store.read(queue, ReadOffsetType.READ_FROM_STORE) for queue in _QUEUES]
    assert found[0] == found[1], found
    versions(promises, first=-1).check(found[0])


LOCAL_OFFSETS: Final = Writer(
    "a broadcasting consumer's offsets",
    ("client/consumer/local_offsets.py",),
    _offsets_live,
    _offsets_are_whole,
    (_UNSYNCED, _RENAMES_ALONE),
)

# -- a replica -------------------------------------------------------------------------------------


async def _epochs_live(folder: Path, say: Say) -> None:
    file = EpochFile(str(folder), OsDisk())
    await file.load()
    for number in range(1, 5):
        say(("asked", number))
        await file.append(Epoch(number, number * 1000))
        say(("safe", number))


async def _epochs_are_whole(folder: Path, promises: Sequence[Any]) -> None:
    file = EpochFile(str(folder), OsDisk())
    await file.load()
    found = file.table.entries
    versions(promises).check(len(found))
    assert found == tuple(Epoch(n, n * 1000) for n in range(1, len(found) + 1)), found


EPOCHS: Final = Writer(
    "a replica's epochs",
    ("broker/replication/epoch_file.py",),
    _epochs_live,
    _epochs_are_whole,
    (
        _UNSYNCED,
        _RENAMES_ALONE,
        broken(
            "broker/replication/epoch_file.py",
            "await self._file.replace(table.text())",
            "pass",
        ),
    ),
)

_CLAIMED = Identity("C", "broker-a", 2, "127.0.0.1:10911;17")


async def _identity_lives(folder: Path, say: Say) -> None:
    files = IdentityFiles(str(folder), OsDisk())
    await files.claim(_CLAIMED)
    say("claimed")
    await files.confirmed(_CLAIMED)
    say("confirmed")


async def _identity_is_kept(folder: Path, promises: Sequence[Any]) -> None:
    found = await IdentityFiles(str(folder), OsDisk()).load("C", "broker-a")
    if promises:
        assert found is not None, "a claim may have been made, and nobody knows of it"
        assert found.broker_id == 2, found
    if "confirmed" in promises:
        assert found is not None
        assert not found.check_code, "it claims an id anew that it has"


IDENTITY: Final = Writer(
    "who a replica is",
    ("broker/controller_mode/identity.py",),
    _identity_lives,
    _identity_is_kept,
    (
        _UNSYNCED,
        broken(
            "broker/controller_mode/identity.py",
            'await self._disk.rename(f"{path}.tmp", path)',
            'import os; os.replace(f"{path}.tmp", path)',
        ),
    ),
)

# -- a store ---------------------------------------------------------------------------------------


async def _checkpoint_lives(folder: Path, say: Say) -> None:
    checkpoint = StoreCheckpoint(OsDisk(), str(folder))
    for number in range(1, 5):
        checkpoint.durable_offset = checkpoint.durable_entries = number
        checkpoint.physic_msg_timestamp = checkpoint.logics_msg_timestamp = number
        say(("asked", number))
        checkpoint.write()
        checkpoint.sync()
        if number == 1:
            OsDisk().sync_directory(str(folder))  # the store does, with its first flush
        say(("safe", number))
    checkpoint.close()


async def _checkpoint_is_whole(folder: Path, promises: Sequence[Any]) -> None:
    checkpoint = StoreCheckpoint(OsDisk(), str(folder))
    checkpoint.load()
    assert checkpoint.is_ours == (checkpoint.durable_offset > 0)
    versions(promises).check(checkpoint.durable_offset)
    if checkpoint.is_ours:
        assert checkpoint.durable_entries == checkpoint.durable_offset
        assert checkpoint.physic_msg_timestamp == checkpoint.durable_offset


CHECKPOINT: Final = Writer(
    "a store's checkpoint",
    ("broker/store/checkpoint.py",),
    _checkpoint_lives,
    _checkpoint_is_whole,
    (broken("broker/store/checkpoint.py", "file.sync()", "pass"),),
)

WRITERS: Final = (JOURNAL, KV, TABLE, LOCAL_OFFSETS, EPOCHS, IDENTITY, CHECKPOINT, *TOOLS)
