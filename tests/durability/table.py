"""The table of writers. A new one is an entry here: `WRITERS`, at the end of this file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker.timers.timer_rig import START_MS as TIMERS_BEGIN_MS
from broker.timers.timer_rig import timers_at
from durability.harness import PAGE, Say, Writer, broken, versions
from durability.tools_table import TOOLS
from pocketmq.broker.access.plain.changes import change_account
from pocketmq.broker.access.plain.files import PlainAclFiles, parsed_by_path
from pocketmq.broker.controller_mode.identity import Identity, IdentityFiles
from pocketmq.broker.kept_filters.consumer_filters import ConsumerFilterFile, FiltersOfTopic
from pocketmq.broker.pop.orders import OrderTable
from pocketmq.broker.replication.epoch_file import EpochFile
from pocketmq.broker.replication.epochs import Epoch
from pocketmq.broker.store import FlushDiskType
from pocketmq.broker.store.disk.disk import OsDisk
from pocketmq.broker.store.flush.checkpoint import StoreCheckpoint
from pocketmq.broker.tables.table_file import TableFile
from pocketmq.broker.tables.topic_counts import TopicCount
from pocketmq.broker.transactions.counts import TransactionMetrics
from pocketmq.client.consumer.progress.local_offsets import LocalFileOffsetStore
from pocketmq.client.consumer.progress.offset_table import ReadOffsetType
from pocketmq.controller.journal_file import JournalFile
from pocketmq.controller.raft.messages import Entry, Snapshot, Write
from pocketmq.nameserver.kv_file import KvFile
from pocketmq.protocol.bodies.access import AccessTable, UserInfo
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig, SubscriptionGroupWrapper
from pocketmq.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from pocketmq.protocol.bodies.pop import MessageRequestModes, RequestModeBody
from pocketmq.protocol.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.files.text_files import OsTextFiles
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.inline_disk import InlineDisk
from support.power_cut import NextBoot

_TEXTS = "runtime/files/text_files.py"
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
    ("nameserver/kv_file.py", "runtime/files/durable_file.py", "runtime/files/text_files.py"),
    _kv_lives,
    _kv_is_whole,
    (
        _UNSYNCED,
        _RENAMES_ALONE,
        broken(
            "runtime/files/durable_file.py",
            "self._files.make_directory(str(self.path.parent), lasting=True)",
            "self._files.make_directory(str(self.path.parent))",
        ),
    ),
)


def _topics(count: int) -> TopicConfigSerializeWrapper:
    return TopicConfigSerializeWrapper(
        topic_config_table={f"T{n}": TopicConfig(topic_name=f"T{n}") for n in range(count)}
    )


def _groups(count: int) -> SubscriptionGroupWrapper:
    named = {f"G{n}": SubscriptionGroupConfig(group_name=f"G{n}") for n in range(count)}
    return SubscriptionGroupWrapper(subscription_group_table=named)


def _modes(count: int) -> MessageRequestModes:
    modes = {f"G{n}": RequestModeBody(topic="T", consumer_group=f"G{n}") for n in range(count)}
    return MessageRequestModes(message_request_mode_map={"T": modes})


TABLES: Final[dict[str, Callable[[int], Any]]] = {
    "topics.json": _topics,
    "subscriptionGroup.json": _groups,
    "consumerOffset.json": lambda n: ConsumerOffsetTable(offset_table={"T@G": {0: n}}),
    "delayOffset.json": lambda n: DelayOffsetTable(offset_table={3: n}),
    "consumerFilter.json": lambda n: ConsumerFilterFile(
        filter_data_by_topic={f"T{each}": FiltersOfTopic(topic=f"T{each}") for each in range(n)}
    ),
    "messageRequestMode.json": _modes,
    "consumerOrderInfo.json": lambda n: OrderTable(table={f"T{each}@G": {} for each in range(n)}),
    "transactionMetrics": lambda n: TransactionMetrics(
        transaction_count={f"T{each}": TopicCount(count=each) for each in range(n)}
    ),
    "access.json": lambda n: AccessTable(users=[UserInfo(username=f"u{n}") for n in range(n)]),
}
"""Name of each table of a broker -> its content, by a number."""


def _table_file(folder: Path, name: str, found: list[Any], content: Any) -> TableFile[Any]:
    path = folder / "store" / "config" / name
    return TableFile(path, OsDisk(), ManualClock(0), type(content), found.append, lambda: content)


def _store_is_there(folder: Path) -> None:
    (folder / "store").mkdir()


async def _tables_live(folder: Path, say: Say) -> None:
    for name, content in TABLES.items():
        for number in range(1, 4):
            say(("asked", number, name))
            await _table_file(folder, name, [], content(number)).save()
            say(("safe", number, name))


async def _tables_are_whole(folder: Path, promises: Sequence[Any]) -> None:
    # Those before were judged at their own steps.
    for name in {name for _, _, name in promises[-1:]}:
        content = TABLES[name]
        found: list[Any] = []
        await _table_file(folder, name, found, content(0)).load()
        number = next((n for n in range(1, 4) if found == [content(n)]), 0)
        assert number or not found, f"{name}: {found}"
        versions([each[:2] for each in promises if each[2] == name]).check(number)


TABLE: Final = Writer(
    "the tables of a broker",
    (
        *("broker/core.py", "broker/tables/table_file.py", "broker/tables/json_files.py"),
        *("broker/access/assembly.py", "broker/delays/assembly.py", "broker/groups/assembly.py"),
        *("broker/kept_filters/assembly.py", "broker/offsets/assembly.py"),
        *("broker/pop/assembly.py", "broker/topics/assembly.py"),
        "broker/transactions/assembly.py",
    ),
    _tables_live,
    _tables_are_whole,
    (
        _UNSYNCED,
        _RENAMES_ALONE,
        broken("broker/tables/json_files.py", "if text == self._saved:", "if True:"),
    ),
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
    ("client/consumer/progress/local_offsets.py",),
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

# -- accounts of ACL 1.0 ---------------------------------------------------------------------------


def _plain_accounts(folder: Path) -> PlainAclFiles:
    return PlainAclFiles(folder / "conf" / "plain_acl.yml", ManualClock(0), lambda _: None)


async def _accounts_live(folder: Path, say: Say) -> None:
    files = _plain_accounts(folder)
    await files.load()
    for number in range(1, 5):
        told = {"accessKey": f"account{number}", "secretKey": "12345678"}
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(failure: Exception | None, changed: asyncio.Future[None] = changed) -> None:
            changed.set_result(None) if failure is None else changed.set_exception(failure)

        say(("asked", number))
        files.change(partial(change_account, default=files.path, told=told), done)
        await changed
        say(("safe", number))


async def _accounts_are_whole(folder: Path, promises: Sequence[Any]) -> None:
    files = _plain_accounts(folder)
    await files.load()  # raises where a file is half written
    count = files.versions[files.path].counter if files.versions else 0
    versions(promises).check(count)
    names = [each["accessKey"] for each in _account_list(files.path)] if count else []
    assert names == [f"account{number}" for number in range(1, count + 1)]


def _account_list(path: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = parsed_by_path({path: path.read_bytes()})[path]["accounts"]
    return found


ACCOUNTS: Final = Writer(
    "accounts of ACL 1.0",
    ("broker/access/plain/files.py",),
    _accounts_live,
    _accounts_are_whole,
    (_UNSYNCED, _RENAMES_ALONE),
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
    ("broker/store/flush/checkpoint.py",),
    _checkpoint_lives,
    _checkpoint_is_whole,
    (broken("broker/store/flush/checkpoint.py", "file.sync()", "pass"),),
)


# -- timers ----------------------------------------------------------------------------------------

_BEHIND: Final = {b"%d" % number: str(40 + 5 * (number % 4)) for number in range(8)}
"""Body -> its delay in seconds."""


async def _timers_live(folder: Path, say: Say) -> None:
    disk = InlineDisk()
    async with timers_at(folder, disk=disk, flush=FlushDiskType.SYNC_FLUSH, log_file=_LOG) as rig:
        for body, delay_s in _BEHIND.items():
            rig.send(body, TIMER_DELAY_SEC=delay_s)
            await rig.advance(2)  # it is flushed, taken in, and the timers write their files
            say(body)
        await rig.advance(30)


async def _timers_are_kept(folder: Path, promises: Sequence[Any]) -> None:
    clock = ManualClock(TIMERS_BEGIN_MS + 200_000)
    async with timers_at(folder, disk=NextBoot(), clock=clock, log_file=_LOG) as rig:
        await rig.advance(3)
        found = rig.bodies()
    assert set(promises) <= set(found), f"{set(promises) - set(found)} will never come"


_LOG: Final = 52 * 6
"""So that the timer log rolls."""
TIMERS: Final = Writer(
    "the timers' log, wheel and checkpoint",
    ("broker/timers/log.py", "broker/timers/files.py"),
    _timers_live,
    _timers_are_kept,
    (
        broken(
            "broker/timers/log.py", "sync_file(disk, file.path, doubtful.get(file.path))", "pass"
        ),
        broken(
            "broker/timers/files.py",
            "await self._on_worker(lambda: self._sync(self._wheel_path, view, checked))",
            "pass",
        ),
    ),
    grain=PAGE,
    drawn=2,
)

WRITERS: Final = (
    *(JOURNAL, KV, TABLE, LOCAL_OFFSETS, EPOCHS, IDENTITY, ACCOUNTS, CHECKPOINT, TIMERS),
    *TOOLS,
)
