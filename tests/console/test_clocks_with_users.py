"""`pocketmq clock` at a cluster with users: roles move for a super user, and for nobody else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pocketmq.client.config import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from pocketmq.testing import Cluster, start_cluster
from support.console import Console


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(
        users={"shop": "secret"},
        super_users={"admin": "other"},
        clock="manual",
        data=tmp_path_factory.mktemp("secured"),
    ) as cluster:
        yield cluster


def times(console: Console) -> dict[str, int]:
    shown = console("clock", "show", "-o", "json").json
    return {each["name"]: each["time_ms"] for each in shown}


@pytest.mark.parametrize(
    ("user", "said"),
    [
        (None, "username cannot be null."),
        (("shop", "secret"), "User:shop"),
        (("admin", "wrong"), "check signature failed."),
    ],
)
def test_who_is_no_super_user_moves_no_clock(
    secured: Cluster,
    console: Console,
    monkeypatch: pytest.MonkeyPatch,
    user: tuple[str, str] | None,
    said: str,
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", secured.nameservers)
    for variable, text in zip(
        (ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE), user or (None, None), strict=True
    ):
        if text is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, text)
    before = secured.time_ms

    refused = console("clock", "advance", "5").error
    assert said in refused
    assert refused.endswith("; give what it asks for"), "it runs, and is not dead"
    shown = console("clock", "show")

    assert secured.time_ms == before
    assert {row[0] for row in shown.rows if said in row[-1]} >= {"nameserver-1"}


def test_a_super_user_moves_all(
    secured: Cluster, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", secured.nameservers)
    for user in (("admin", "other"), secured.super_user):
        assert user is not None
        key, secret = user if isinstance(user, tuple) else (user.access_key, user.secret_key)
        monkeypatch.setenv(ACCESS_KEY_VARIABLE, key)
        monkeypatch.setenv(SECRET_KEY_VARIABLE, secret)
        before = times(console)
        moved = console("clock", "advance", "5", "-o", "json")
        assert (moved.status, moved.err) == (0, "")
        assert {"nameserver-1", "broker-a"} <= set(moved.json["moved"])
        assert times(console) == {name: at_ms + 5_000 for name, at_ms in before.items()}


def test_other_commands_of_a_normal_user_do_without_the_clusters_time(
    secured: Cluster, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", secured.nameservers)
    monkeypatch.setenv(ACCESS_KEY_VARIABLE, "shop")
    monkeypatch.setenv(SECRET_KEY_VARIABLE, "secret")
    secured.sync.create_topic("orders")
    tailed = console("message", "tail", "orders", "--from", "1m-ago", "--no-follow")
    assert (tailed.status, tailed.err) == (0, "")
    said = console("consume", "orders", "--group", "g", "--clock", "manual").error
    assert "User:shop" in said
    assert f"set {ACCESS_KEY_VARIABLE}" in said
