"""`pocketmq clock` at a cluster with users: roles move for a super user, and for nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pocketmq.client.config import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from pocketmq.operation.access.options import SUPER_USERS_VARIABLE
from pocketmq.testing import Cluster, start_cluster
from support.console import Console, until


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(
        users={"shop": "secret"},
        super_users={"admin": "other"},
        clock="manual",
        data=tmp_path_factory.mktemp("secured"),
    ) as cluster:
        yield cluster


Sign = Callable[[str, str], None]


@pytest.fixture
def sign(secured: Cluster, monkeypatch: pytest.MonkeyPatch) -> Sign:
    """Give the console the cluster's address, and from each call on a user's name and password."""
    monkeypatch.setenv("NAMESRV_ADDR", secured.nameservers)

    def by(name: str, password: str) -> None:
        monkeypatch.setenv(ACCESS_KEY_VARIABLE, name)
        monkeypatch.setenv(SECRET_KEY_VARIABLE, password)

    return by


def times(console: Console) -> dict[str, int]:
    shown = console("clock", "show", "-o", "json").json
    return {each["name"]: each["time_ms"] for each in shown}


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (("", ""), "username cannot be null."),
        (("shop", "secret"), "User:shop"),
        (("admin", "wrong"), "check signature failed."),
    ],
)
def test_who_is_no_super_user_moves_no_clock(
    secured: Cluster, console: Console, sign: Sign, user: tuple[str, str], said: str
) -> None:
    sign(*user)
    before = secured.time_ms

    refused = console("clock", "advance", "5").error
    assert said in refused
    assert refused.endswith("; give what it asks for"), "it runs, and is not dead"
    shown = console("clock", "show")

    assert secured.time_ms == before
    assert {row[0] for row in shown.rows if said in row[-1]} >= {"nameserver-1"}


def test_a_super_user_moves_all(secured: Cluster, console: Console, sign: Sign) -> None:
    own = secured.super_user
    assert own is not None
    for user in (("admin", "other"), (own.access_key, own.secret_key)):
        sign(*user)
        before = times(console)
        moved = console("clock", "advance", "5", "-o", "json")
        assert (moved.status, moved.err) == (0, "")
        assert {"nameserver-1", "broker-a"} <= set(moved.json["moved"])
        assert times(console) == {name: at_ms + 5_000 for name, at_ms in before.items()}


def test_other_commands_of_a_normal_user_do_without_the_clusters_time(
    secured: Cluster, console: Console, sign: Sign
) -> None:
    sign("shop", "secret")
    secured.sync.create_topic("orders")
    tailed = console("message", "tail", "orders", "--from", "1m-ago", "--no-follow")
    assert (tailed.status, tailed.err) == (0, "")
    said = console("consume", "orders", "--group", "g", "--clock", "manual").error
    assert "User:shop" in said
    assert f"set {ACCESS_KEY_VARIABLE}" in said


@contextmanager
def consuming(cluster: Cluster, *, told: dict[str, str]) -> Iterator[str]:
    """`pocketmq consume --clock manual` of the super user, and its name at the nameservers."""
    command = [sys.executable, "-m", "pocketmq.cluster.cli.main", "consume", "orders"]
    keys = {ACCESS_KEY_VARIABLE: "admin", SECRET_KEY_VARIABLE: "other"}
    env = os.environ | keys | {"NAMESRV_ADDR": cluster.nameservers}
    if told:
        env[SUPER_USERS_VARIABLE] = json.dumps(told)
    with subprocess.Popen(
        [*command, "--group", "manual", "--clock", "manual"], stdout=subprocess.DEVNULL, env=env
    ) as process:
        try:
            yield f"consume-{process.pid}"
        finally:
            process.terminate()
            process.wait(timeout=100)


@pytest.mark.cluster
def test_a_consumer_on_manual_time_moves_for_the_super_user_that_it_is_told(
    secured: Cluster, console: Console, sign: Sign
) -> None:
    sign("admin", "other")
    secured.sync.create_topic("orders")
    with consuming(secured, told={"admin": "other"}) as name:
        until(lambda: name in times(console), "the consumer's clock is known")
        before = times(console)

        sign("shop", "secret")
        refused = {row[0]: row[-1] for row in console("clock", "show").rows}
        assert "User:shop" in refused[name]
        console("clock", "advance", "5")
        sign("admin", "other")
        assert times(console) == before

        moved = console("clock", "advance", "5", "-o", "json")
        assert (moved.status, moved.err) == (0, "")
        assert name in moved.json["moved"]
        assert times(console) == {each: at_ms + 5_000 for each, at_ms in before.items()}


@pytest.mark.cluster
def test_a_consumer_that_is_told_no_super_user_stands_still_and_says_why(
    secured: Cluster, console: Console, sign: Sign
) -> None:
    sign("admin", "other")
    secured.sync.create_topic("orders")
    with consuming(secured, told={}) as name:
        until(lambda: name in console("clock", "show").out, "the consumer's port is known")
        moved = console("clock", "advance", "5", "-o", "json")
        assert moved.status == 0
        assert name not in moved.json["moved"]
        [line] = moved.err.splitlines()
        assert line.startswith(f"left out: {name} (")
        assert f"set {SUPER_USERS_VARIABLE}=" in line
