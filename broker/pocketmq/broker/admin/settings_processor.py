"""GET_BROKER_CONFIG (26): what the broker was started with, under RocketMQ's names."""

from __future__ import annotations

from typing import Any

from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.body import encode_json
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.headers.settings import GetBrokerConfigResponseHeader
from pocketmq.runtime.option_types import as_text
from pocketmq.runtime.options import describe


class SettingsProcessor:
    """Shows settings. They cannot be changed while the broker runs.

    Args:
        configs: objects whose declared options are shown; secret ones are left out.
    """

    def __init__(self, *configs: Any) -> None:
        lines = {
            each.rocketmq_name: as_text(getattr(config, each.name))
            for config in configs
            for each in describe(type(config))
            if not each.secret
        }
        self._body = "".join(f"{name}={text}\n" for name, text in lines.items()).encode()

    @handles(RequestCode.GET_BROKER_CONFIG)
    def settings(self, _peer: Peer, request: Command) -> Reply:
        """Lines of `name=value`, as `mqadmin getBrokerConfig` reads them."""
        version = encode_json(DataVersion()).decode()  # nothing has changed since the start
        return request.reply(GetBrokerConfigResponseHeader(version=version), self._body)
