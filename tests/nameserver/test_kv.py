"""The KV configuration: table, requests, file (N-1, N-33)."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from pocketmq.nameserver.kv_config import ENTRY_BYTES, KvConfig, KvTable
from pocketmq.nameserver.kv_file import KvFile, kv_writer
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import decode_body
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command, Encoding
from pocketmq.protocol.headers.kv import (
    DeleteKvConfigRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    GetKvListRequestHeader,
    PutKvConfigRequestHeader,
)
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import DiskError
from support.nameserver_rig import NameServerRig, nameserver


def put(key: str, value: str = "v", namespace: str = "ns") -> PutKvConfigRequestHeader:
    return PutKvConfigRequestHeader(namespace=namespace, key=key, value=value)


def get(key: str, namespace: str = "ns") -> GetKvConfigRequestHeader:
    return GetKvConfigRequestHeader(namespace=namespace, key=key)


@pytest.mark.parametrize("encoding", list(Encoding))
async def test_a_value_is_put_read_listed_and_deleted(
    rig: NameServerRig, encoding: Encoding
) -> None:  # N-33
    channel = await rig.channel(encoding)
    assert (await channel.request(put("k", "größer; 0"))).code == ResponseCode.SUCCESS
    assert rig.storage.table == {"ns": {"k": "größer; 0"}}
    reply = await channel.request(get("k"))
    assert reply.header(GetKvConfigResponseHeader).value == "größer; 0"
    reply = await channel.request(GetKvListRequestHeader(namespace="ns"))
    assert decode_body(reply.body_view, KVTable, encoding).table == {"k": "größer; 0"}
    delete = DeleteKvConfigRequestHeader(namespace="ns", key="k")
    assert (await channel.request(delete)).code == ResponseCode.SUCCESS
    assert (await channel.request(delete)).code == ResponseCode.SUCCESS
    for header in (get("k"), GetKvListRequestHeader(namespace="ns")):
        reply = await channel.request(header)
        assert reply.code == ResponseCode.QUERY_NOT_FOUND
        assert reply.remark is not None
        assert "ns" in reply.remark
    assert rig.storage.table == {}


async def test_changes_made_while_the_file_is_written_share_the_next_write(
    rig: NameServerRig,
) -> None:  # N-33
    channel = await rig.channel()
    replies = await asyncio.gather(*(channel.request(put(f"k{n}")) for n in range(50)))
    assert {reply.code for reply in replies} == {0}
    assert len(rig.storage.table["ns"]) == 50
    assert rig.storage.saves <= 2


async def test_a_change_that_cannot_be_written_is_answered_with_the_reason() -> None:
    async with nameserver() as rig:
        rig.storage.failure = DiskError("kvConfig.json", "No space left on device")
        reply = await rig.ask(put("k"))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert reply.remark is not None
        assert "No space left" in reply.remark


async def test_what_was_put_is_there_after_a_restart(tmp_path: Path) -> None:
    file = KvFile(tmp_path / "namesrv" / "kvConfig.json")
    assert await file.load() == {}
    await file.save({"ns": {"k": "v"}})
    assert await KvFile(file.path).load() == {"ns": {"k": "v"}}


async def test_the_file_has_the_shape_and_indentation_of_rocketmq(tmp_path: Path) -> None:  # 6.7
    file = KvFile(tmp_path / "kvConfig.json")
    await file.save({"ns": {"k": "v"}})
    assert file.path.read_text() == '{\n\t"configTable":{\n\t\t"ns":{\n\t\t\t"k":"v"\n\t\t}\n\t}\n}'


async def test_the_backup_holds_the_content_before_the_last_write(tmp_path: Path) -> None:  # N-1
    file = KvFile(tmp_path / "kvConfig.json")
    for value in ("1", "2", "3"):
        await file.save({"ns": {"k": value}})
    assert json.loads(file.backup_path.read_text()) == {"configTable": {"ns": {"k": "2"}}}
    assert sorted(os.listdir(tmp_path)) == ["kvConfig.json", "kvConfig.json.bak"]


@pytest.mark.parametrize("content", ["", '{"configTable":{"ns":{"k":'], ids=["empty", "torn"])
async def test_a_damaged_file_is_replaced_by_its_backup(tmp_path: Path, content: str) -> None:
    file = KvFile(tmp_path / "kvConfig.json")
    for value in ("1", "2"):
        await file.save({"ns": {"k": value}})
    file.path.write_text(content)
    assert await file.load() == {"ns": {"k": "1"}}


async def test_a_damaged_file_without_backup_is_an_error_and_not_an_empty_table(
    tmp_path: Path,
) -> None:
    file = KvFile(tmp_path / "kvConfig.json")
    file.path.write_text("{]")
    with pytest.raises(DiskError, match="repair it"):
        await file.load()


async def test_a_file_written_by_fastjson_is_read(tmp_path: Path) -> None:  # E-60
    file = KvFile(tmp_path / "kvConfig.json")
    file.path.write_text('{\n\t"configTable":{"ORDER_TOPIC_CONFIG":{"T":"broker-a:4"}\n\t}\n}')
    assert await file.load() == {"ORDER_TOPIC_CONFIG": {"T": "broker-a:4"}}


async def test_a_folder_that_may_not_be_made_is_a_disk_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match="kv-config-path"):
        await KvFile(tmp_path / "file" / "kvConfig.json").save({})


async def test_stopping_waits_for_the_write_under_way(tmp_path: Path) -> None:
    kv, file = KvConfig(), KvFile(tmp_path / "kvConfig.json")
    writer = kv_writer(kv, file)
    saved: list[DiskError | None] = []
    kv.put("ns", "k", "v")
    writer.save(saved.append)
    await writer.stop()
    assert saved == [None]
    assert await file.load() == {"ns": {"k": "v"}}


async def test_a_nameserver_that_stops_answers_when_a_change_is_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # N-33
    async with nameserver() as rig:
        save, is_saving = rig.storage.save, asyncio.Event()

        async def save_slowly(table: KvTable) -> None:
            is_saving.set()
            await turns(300)
            await save(table)

        monkeypatch.setattr(rig.storage, "save", save_slowly)
        change = (await rig.channel()).request(put("k"))
        await is_saving.wait()
        await rig.server.stop()
        assert (await change).code == ResponseCode.SUCCESS
        assert rig.storage.table == {"ns": {"k": "v"}}


async def test_a_change_that_comes_while_the_port_closes_is_not_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with nameserver() as rig:
        channel, save = await rig.channel(), rig.storage.save
        asked: list[asyncio.Future[Command]] = []

        async def change_now() -> None:
            asked.append(channel.request(put("late")))
            await turns(20)

        async def save_slowly(table: KvTable) -> None:
            await turns(300)
            await save(table)

        monkeypatch.setattr(rig.storage, "save", save_slowly)
        monkeypatch.setattr(rig.server._grpc_door, "stop", change_now)
        await rig.server.stop()
        monkeypatch.undo()  # the rig stops it once more
        assert rig.storage.table == {"ns": {"late": "v"}}
        await asyncio.gather(*asked, return_exceptions=True)


async def turns(count: int) -> None:
    for _ in range(count):
        await SystemClock().sleep(0)


def test_the_table_knows_about_how_large_it_is() -> None:
    kv = KvConfig({"ns": {"key": "value"}, "empty": {}})
    entry = ENTRY_BYTES + len("nskeyvalue")
    assert (kv.size_bytes, kv.snapshot()) == (entry, {"ns": {"key": "value"}})
    assert kv.growth("ns", "key", "longer one") == 5
    assert kv.growth("ns", "key", "v") == -4
    assert kv.growth("ns", "other", "v") == ENTRY_BYTES + len("nsotherv")
    kv.put("ns", "key", "v")
    assert (kv.size_bytes, kv.get("ns", "key")) == (entry - 4, "v")
    kv.put("ns", "other", "v")
    assert kv.size_bytes == 2 * ENTRY_BYTES + len("nskeyv") + len("nsotherv")
    kv.delete("ns", "key")
    kv.delete("ns", "key")
    assert kv.namespace("ns") == {"other": "v"}
    assert kv.size_bytes == ENTRY_BYTES + len("nsotherv")
    kv.delete("ns", "other")
    assert (kv.size_bytes, kv.snapshot()) == (0, {})
    assert (KvConfig().size_bytes, kv.get("ns", "key"), kv.namespace("ns")) == (0, None, {})
    kv.replace({"a": {"b": "c"}})
    kv.replace({"d": {"e": "f"}})
    assert (kv.size_bytes, kv.snapshot()) == (ENTRY_BYTES + 3, {"d": {"e": "f"}})
