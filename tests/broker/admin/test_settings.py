"""GET_BROKER_CONFIG (26): the settings as `name=value` lines."""

from __future__ import annotations

from pathlib import Path

from pocketmq.protocol.command import Encoding
from pocketmq.protocol.headers.settings import (
    GetBrokerConfigRequestHeader,
    GetBrokerConfigResponseHeader,
)
from support.broker_rig import running_broker


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
