"""The port that a client process has of its own: with users on, it is a super user's."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest

from pocketmq.client.config import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from pocketmq.cluster.control_port import client_port_door, control_port
from pocketmq.cluster.folder import USER_FILE
from pocketmq.cluster.local import local_cluster
from pocketmq.cluster.spec import ProcessSpec
from pocketmq.cluster.steering.access import read_key
from pocketmq.cluster.steering.processes import RoleProcesses
from pocketmq.cluster.supervisor import Supervisor
from pocketmq.operation.access.options import SUPER_USERS_VARIABLE
from pocketmq.operation.control.processor import event_log
from pocketmq.operation.control.requests import (
    ClockResponseHeader,
    GetClockRequestHeader,
    GetEventsRequestHeader,
    MoveClockRequestHeader,
    RoleStatusRequestHeader,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.header import Header
from pocketmq.protocol.signing import Credentials
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.runtime.errors import ConfigError
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from support.eventually import PATIENCE_S

START_MS: Final = 1_800_000_000_000
SHOP: Final = Credentials("shop", "s3cret")
ADMIN: Final = Credentials("admin", "0ther")
SIGNING: Final = {ACCESS_KEY_VARIABLE: SHOP.access_key, SECRET_KEY_VARIABLE: SHOP.secret_key}
TOLD: Final = {SUPER_USERS_VARIABLE: json.dumps({ADMIN.access_key: ADMIN.secret_key})}

STRANGERS: Final = [
    (None, "username cannot be null."),
    (SHOP, "User:shop is not found."),
    (Credentials("admin", "wrong"), "check signature failed."),
]
FILE: Final = """
[users]
shop = "s3cret"

[super_users]
admin = "0ther"
"""


async def answers(port: int, who: Credentials | None, to_ms: int) -> list[Command]:
    """What a port answers to every request of PocketMQ's own that it knows."""
    asked: list[Header] = [
        GetClockRequestHeader(),
        RoleStatusRequestHeader(),
        GetEventsRequestHeader(),
        MoveClockRequestHeader(time_ms=to_ms),
    ]
    remoting = RemotingClient(TcpNetwork(), credentials=who)
    try:
        address = f"127.0.0.1:{port}"
        return [await remoting.call(address, each, timeout_s=PATIENCE_S) for each in asked]
    finally:
        await remoting.close()


@asynccontextmanager
async def client_port(
    env: dict[str, str], announce_to: Sequence[str] = ()
) -> AsyncIterator[tuple[int, ManualClock]]:
    """The port of a client that has this environment."""
    clock = ManualClock(START_MS)
    async with control_port(
        "consumer-1",
        clock,
        lambda: {"group": "billing"},
        door=client_port_door(env),
        announce_to=announce_to,
        events=event_log("consumer-1", clock, always=True),
    ) as port:
        yield port, clock


@asynccontextmanager
async def secured(folder: Path) -> AsyncIterator[tuple[Supervisor, Credentials]]:
    """A cluster with the users of `FILE`, and its own super user."""
    (folder / "users.toml").write_text(FILE)
    data = folder / "data"
    async with local_cluster(users=folder / "users.toml", clock="manual", data=data) as cluster:
        yield cluster, read_key(data / USER_FILE)


@pytest.mark.parametrize("env", [SIGNING | TOLD, TOLD], ids=["signing", "keyless"])
async def test_a_client_that_is_told_super_users_obeys_them_alone(env: dict[str, str]) -> None:
    async with client_port(env) as (port, clock):
        for who, remark in STRANGERS:
            for reply in await answers(port, who, START_MS + 5_000):
                assert (reply.code, reply.remark) == (ResponseCode.NO_PERMISSION, remark)
                assert not reply.body
            assert clock.time_ms() == START_MS

        told = await answers(port, ADMIN, START_MS + 5_000)
        assert {each.code for each in told} == {ResponseCode.SUCCESS}
        assert told[0].header(ClockResponseHeader).now_ms == START_MS
        assert clock.time_ms() == START_MS + 5_000


async def test_a_client_that_signs_and_is_told_nobody_obeys_nobody() -> None:
    async with client_port(SIGNING) as (port, clock):
        for who in (None, SHOP, ADMIN):
            for reply in await answers(port, who, START_MS + 5_000):
                assert reply.code == ResponseCode.NO_PERMISSION
                [line] = str(reply.remark).splitlines()
                assert f'set {SUPER_USERS_VARIABLE}={{"name":"password"}}' in line
        assert clock.time_ms() == START_MS


async def test_a_client_without_users_obeys_everybody_as_a_role_does() -> None:
    async with client_port({}) as (port, clock):
        told = await answers(port, None, START_MS + 5_000)
        assert {each.code for each in told} == {ResponseCode.SUCCESS}
        assert clock.time_ms() == START_MS + 5_000


@pytest.mark.parametrize("text", ["admin:0ther", '["0ther"]', '{"0ther": ""}', '{"0ther": 7}'])
def test_super_users_that_make_no_sense_are_refused_and_not_shown(text: str) -> None:
    with pytest.raises(ConfigError, match=SUPER_USERS_VARIABLE) as refused:
        client_port_door({SUPER_USERS_VARIABLE: text})
    assert "0ther" not in str(refused.value)


@pytest.mark.cluster
@pytest.mark.timeout(600)
async def test_a_cluster_with_users_tells_its_super_users_to_clients_that_it_starts(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path) as (cluster, own):
        arguments = ("--name", "c", "--records", str(tmp_path / "c.csv"), "--events")
        module = "pocketmq.cluster.demo.consumer_worker"
        client = await cluster.add(ProcessSpec("client", "c", module, arguments), env=SIGNING)
        before_ms = await cluster.control("c").time_ms()

        for who, _ in STRANGERS:
            replies = await answers(client.port, who, before_ms + 1)
            assert {each.code for each in replies} == {ResponseCode.NO_PERMISSION}, who
        assert await cluster.control("c").time_ms() == before_ms

        assert await cluster.advance(seconds=5) == [], "nobody was lost"
        assert await cluster.control("c").time_ms() == before_ms + 5_000
        told = await answers(client.port, ADMIN, before_ms + 5_000)
        assert {each.code for each in told} == {ResponseCode.SUCCESS}

        shown = " ".join(psutil.Process(client.pid).cmdline()) + client.log_tail(1_000)
        for secret in (own.secret_key, ADMIN.secret_key, SHOP.secret_key):
            assert secret not in shown


@pytest.mark.cluster
@pytest.mark.timeout(600)
async def test_the_control_address_moves_clients_that_are_told_the_clusters_own_user(
    tmp_path: Path,
) -> None:
    async with secured(tmp_path) as (cluster, own):
        told = SIGNING | {SUPER_USERS_VARIABLE: json.dumps({own.access_key: own.secret_key})}
        for env, moves in ((told, True), (SIGNING | TOLD, False)):
            async with client_port(env, cluster.nameserver_addresses):
                members = await RoleProcesses(cluster).clock_members()
            assert ("consumer-1" in {each.name for each in members}) == moves
