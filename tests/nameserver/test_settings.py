"""UPDATE_NAMESRV_CONFIG (318) and GET_NAMESRV_CONFIG (319)."""

from __future__ import annotations

from pathlib import Path

from pocketmq.nameserver.config import NameServerConfig
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.headers.route import (
    GetAllTopicListRequestHeader,
    GetNamesrvConfigRequestHeader,
)
from pocketmq.protocol.headers.settings import UpdateNamesrvConfigRequestHeader
from pocketmq.runtime.configuration.config import load, read_properties
from support.eventually import eventually
from support.nameserver_rig import NameServerRig, nameserver


async def update(rig: NameServerRig, text: str) -> Command:
    return await rig.ask(UpdateNamesrvConfigRequestHeader(), text.encode())


async def test_a_change_acts_at_once_and_is_in_the_file(tmp_path: Path) -> None:  # O-7, O-8
    async with nameserver(kv_config_path=tmp_path / "kvConfig.json") as rig:
        file = tmp_path / "namesrv.properties"
        assert (await rig.ask(GetAllTopicListRequestHeader())).code == 0
        reply = await update(rig, "enableAllTopicList=false\n")
        assert (reply.code, reply.remark) == (0, None)
        assert (await rig.ask(GetAllTopicListRequestHeader())).code == 1
        shown = bytes((await rig.ask(GetNamesrvConfigRequestHeader())).body_view).decode()
        assert "enableAllTopicList=false" in shown.splitlines()
        assert shown.splitlines() == sorted(shown.splitlines())
        before = file.read_bytes()
        await update(rig, "enableAllTopicList=true\nlistenPort=9877")
        assert (tmp_path / "namesrv.properties.bak").read_bytes() == before
        assert read_properties(file)["listenPort"] == "9877"
        again = load(NameServerConfig, {}, {}, broker_conf=file).config
        assert (again.port, again.enable_all_topic_list) == (9877, True)
        assert rig.server.port != 9877


async def test_the_port_that_the_system_chose_is_shown(tmp_path: Path) -> None:  # O-8
    async with nameserver(kv_config_path=tmp_path / "kvConfig.json", port=0) as rig:
        shown = bytes((await rig.ask(GetNamesrvConfigRequestHeader())).body_view).decode()
        assert rig.server.port > 0
        assert f"listenPort={rig.server.port}" in shown.splitlines()


async def test_bad_changes_get_rocketmqs_codes(tmp_path: Path) -> None:  # O-3 to O-8
    async with nameserver(kv_config_path=tmp_path / "kvConfig.json") as rig:
        for key in ("kvConfigPath", "configStorePath", "rocketmqHome", "configBlackList"):
            reply = await update(rig, f"enableTopicList=false\n{key}=/tmp/x")
            assert reply.code == 16
            assert (reply.remark or "").startswith("Can not update config in black list.")
        reply = await update(rig, "enableTopicList=\\u00zz")
        assert (reply.code, (reply.remark or "")[:23]) == (1, "string2Properties error")
        assert not (tmp_path / "namesrv.properties").exists()
        assert rig.server.options.current(NameServerConfig).enable_topic_list
        assert (await update(rig, "")).code == 0
        reply = await update(rig, "enableTopicList=perhaps\nnoSuchKey=1")
        assert reply.code == 0
        assert "enableTopicList ('perhaps' is not true or false)" in (reply.remark or "")
        assert "noSuchKey (no such option)" in (reply.remark or "")
        assert RequestCode.UPDATE_NAMESRV_CONFIG == 318


async def test_a_nameserver_that_stops_answers_when_a_change_is_in_the_file(
    tmp_path: Path,
) -> None:
    async with nameserver(kv_config_path=tmp_path / "kvConfig.json") as rig:
        writer, channel = rig.server._options_writer, await rig.channel()
        change = channel.request(UpdateNamesrvConfigRequestHeader(), b"enableTopicList=false")
        await eventually(lambda: writer._task is not None, "it is being written")
        await rig.server.stop()
        assert (await change).code == 0
        assert read_properties(tmp_path / "namesrv.properties")["enableTopicList"] == "false"


async def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "no").write_text("a file, no folder")
    async with nameserver(config_store_path=tmp_path / "no" / "namesrv.properties") as rig:
        reply = await update(rig, "enableTopicList=false")
        assert reply.code == 1
        assert "until the next restart only" in (reply.remark or "")
