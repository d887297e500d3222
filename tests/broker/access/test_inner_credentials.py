"""Brokers sign what they ask each other (Y-49)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pocketmq.broker.role_names import BrokerRole
from pocketmq.protocol.signing import Credentials
from pocketmq.runtime.errors import ConfigError
from support.broker_rig import running_broker
from support.replicas import ReplicaRig

SLAVE: dict[str, Any] = {"broker_role": BrokerRole.SLAVE, "broker_id": 1}
SECURE: dict[str, Any] = {
    "authentication_enabled": True,
    "authorization_enabled": True,
    "init_authentication_user": json.dumps({"username": "admin", "password": "rooted"}),
}
INNER = {
    "inner_client_authentication_credentials": json.dumps(
        {"accessKey": "inner", "secretKey": "hidden"}
    )
}


@pytest.mark.parametrize("inner", [INNER, {}], ids=["with", "without"])
async def test_a_slave_copies_the_tables_of_a_secured_master_with_inner_credentials_only(
    tmp_path: Path, inner: dict[str, Any]
) -> None:
    async with ReplicaRig(tmp_path) as rig:
        master = await rig.start("master", **SECURE, **inner)
        voice = await rig.voice(master)
        voice.channel.credentials = Credentials("admin", "rooted")
        await voice.send("orders", b"x")
        slave = await rig.start("slave", **SLAVE, **SECURE, **inner)
        await rig.advance(61)

        assert (slave.topics.get("orders") is not None) is bool(inner)
        assert slave.subjects.access.accounts.users.keys() == {"admin", *(["inner"] * bool(inner))}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("init_authentication_user", '{"username":"admin"}'),
        ("init_authentication_user", '{"username":"admin","password":""}'),
        ("inner_client_authentication_credentials", "inner:s3cret"),
    ],
)
async def test_credentials_that_cannot_be_read_end_the_start_without_being_shown(
    tmp_path: Path, name: str, text: str
) -> None:
    options: dict[str, Any] = {name: text}
    with pytest.raises(ConfigError) as refused:
        async with running_broker(tmp_path, **options):
            pass

    assert text not in str(refused.value)
    assert "s3cret" not in str(refused.value)


async def test_a_white_list_of_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="request codes are numbers"):
        async with running_broker(
            tmp_path, authentication_enabled=True, authentication_whitelist="SEND_MESSAGE"
        ):
            pass
