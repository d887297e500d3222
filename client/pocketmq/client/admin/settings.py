"""Options of a running broker or name server: shown as lines, changed as lines (O-2, O-3)."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client.api import ClientApi
from pocketmq.protocol.header import Header
from pocketmq.runtime.errors import ConfigError


async def options_of(api: ClientApi, address: str, header: Header) -> dict[str, str]:
    """RocketMQ's name of each option -> its value; the lines have no escapes (O-2)."""
    response = await api.call(address, header)
    lines = bytes(response.body_view).decode().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


async def change_options(
    api: ClientApi, address: str, header: Header, changes: Mapping[str, str]
) -> str:
    """Change some; the remark of the answer.

    Raises:
        ConfigError: a name or value cannot stand in one line.
        BrokerError: nothing was changed.
    """
    body = "".join(_line(key, value) for key, value in changes.items())
    return (await api.call(address, header, body.encode())).remark or ""


def _line(key: str, value: str) -> str:
    if not key or not (key + value).isprintable() or any(char in " =:#!\\" for char in key):
        raise ConfigError(
            key,
            f"the value {value!r} cannot be one line of properties; use only printable "
            "characters, and in the name no space, =, :, #, ! or backslash",
        )
    return f"{key}={value}\n".replace("\\", "\\\\")
