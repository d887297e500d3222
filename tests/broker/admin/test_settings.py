"""GET_BROKER_CONFIG (26): the settings as `name=value` lines."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.config import BrokerConfig
from pocketmq.broker.store.config import StoreConfig
from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.settings import (
    GetBrokerConfigRequestHeader,
    GetBrokerConfigResponseHeader,
    UpdateBrokerConfigRequestHeader,
)
from pocketmq.runtime.configuration.config import load, read_properties
from support.broker_rig import BrokerRig, running_broker


async def test_settings_are_told_under_rocketmq_s_names(tmp_path: Path, encoding: Encoding) -> None:
    async with running_broker(tmp_path, transaction_check_max=7) as rig:
        reply = await (await rig.voice(encoding)).ask(GetBrokerConfigRequestHeader())
        assert reply.code == 0
        assert '"counter":0' in reply.header(GetBrokerConfigResponseHeader).version
        lines = bytes(reply.body_view).decode().splitlines()
        settings = dict(line.split("=", 1) for line in lines)
        assert settings["transactionCheckMax"] == "7"
        assert settings["brokerClusterName"] == "DefaultCluster"
        assert settings["enablePropertyFilter"] == "false"
        assert settings["flushDiskType"] == "ASYNC_FLUSH"
        assert settings["mappedFileSizeCommitLog"] == str(256 * 1024)


async def shown(rig: BrokerRig) -> dict[str, str]:
    reply = await (await rig.voice()).ask(GetBrokerConfigRequestHeader())
    return dict(line.split("=", 1) for line in bytes(reply.body_view).decode().splitlines())


async def test_what_the_start_decided_is_shown_and_not_kept(tmp_path: Path) -> None:  # O-2
    async with running_broker(tmp_path, port=0, ha_listen_port=-1) as rig:
        settings, port = await shown(rig), rig.broker.core.address.port
        assert port > 0
        assert settings["listenPort"] == str(port)
        assert settings["haListenPort"] == str(rig.broker.subjects.replication.port.port) != "0"
        assert settings["brokerIP1"] == rig.broker.core.address.host
        voice = await rig.voice()
        await voice.ask(UpdateBrokerConfigRequestHeader(), b"transactionCheckMax=7")
        kept = read_properties(Path(rig.broker.store.root) / "config" / "broker.properties")
        assert kept["listenPort"] == "0"
        assert {"brokerIP1": "", "haListenPort": "-1"}.items() <= kept.items()
        assert {"traceOn", "useTLS"}.isdisjoint(kept)
        await voice.ask(UpdateBrokerConfigRequestHeader(), b"listenPort=12345")
        assert (await shown(rig))["listenPort"] == "12345"  # after a restart, as any other option


async def test_what_rocketmqs_export_commands_print_is_shown(tmp_path: Path) -> None:  # O-2
    async with running_broker(tmp_path) as rig:
        settings = await shown(rig)
        assert int(settings["clientCallbackExecutorThreads"]) >= 1
        named = {key: settings[key] for key in ("msgTraceTopicName", "traceOn", "useTLS")}
        assert named == {
            "msgTraceTopicName": "RMQ_SYS_TRACE_TOPIC",
            "traceOn": "true",
            "useTLS": "false",
        }


async def test_a_change_acts_at_once_and_is_in_the_file(tmp_path: Path) -> None:  # O-2, O-3, O-7
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        update = UpdateBrokerConfigRequestHeader()
        assert (await voice.try_send("first")).code == 0
        reply = await voice.ask(update, b"autoCreateTopicEnable=false\nmessageDelayLevel=1s 2s")
        assert reply.code == 0
        assert reply.remark == "only after a restart with this file: messageDelayLevel"
        assert (await voice.try_send("second")).code == 17
        shown = await voice.ask(GetBrokerConfigRequestHeader())
        assert '"counter":1' in shown.header(GetBrokerConfigResponseHeader).version
        lines = bytes(shown.body_view).decode().splitlines()
        assert lines == sorted(lines)
        assert "autoCreateTopicEnable=false" in lines
        file = Path(rig.broker.store.root) / "config" / "broker.properties"
        assert not load(BrokerConfig, {}, {}, broker_conf=file).config.auto_create_topic_enable
        again = load(StoreConfig, {}, {}, broker_conf=file).config
        assert again.message_delay_level == "1s 2s"


async def test_bad_changes_get_rocketmqs_codes(tmp_path: Path) -> None:  # O-3 to O-6
    async with running_broker(tmp_path) as rig:
        voice = await rig.voice()
        update = UpdateBrokerConfigRequestHeader()
        for key in ("brokerConfigPath", "rocketmqHome", "configBlackList"):
            reply = await voice.ask(update, f"autoCreateTopicEnable=false\n{key}=/x".encode())
            assert reply.code == 16
            assert (reply.remark or "").startswith("Can not update config in black list.")
        assert (await voice.ask(update, b"brokerName=\\u00zz")).code == 1
        assert (await voice.ask(update)).code == 0
        assert rig.broker.core.config.auto_create_topic_enable
        assert not (Path(rig.broker.store.root) / "config" / "broker.properties").exists()
        reply = await voice.ask(update, b"transactionCheckMax=often\nfilterServerNums=1")
        assert reply.code == 0
        assert "transactionCheckMax ('often' is not a whole number)" in (reply.remark or "")
        assert "filterServerNums (no such option)" in (reply.remark or "")
