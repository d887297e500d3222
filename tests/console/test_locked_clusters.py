"""Commands at a cluster with all locks, by who has the keys and by who has not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.client.config import (
    ACCESS_KEY_VARIABLE,
    CA_FILE_VARIABLE,
    SECRET_KEY_VARIABLE,
    TLS_VARIABLE,
)
from pocketmq.operation.membership.options import MEMBER_VARIABLE
from pocketmq.testing import Cluster, start_cluster
from support.console import Console


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with start_cluster(
        users={"shop": "secret"},
        super_users={"admin": "other"},
        acl=[("shop", "Topic:*", "Pub")],
        tls=True,
        members_must_prove=True,
        clock="manual",
        data=tmp_path_factory.mktemp("locked"),
    ) as cluster:
        yield cluster


@pytest.fixture
def variables(
    locked: Cluster, console: Console, monkeypatch: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """Those that `up` prints, and a super user's key."""
    monkeypatch.setenv("NAMESRV_ADDR", locked.nameservers)
    monkeypatch.setenv(TLS_VARIABLE, "true")
    monkeypatch.setenv(CA_FILE_VARIABLE, str(locked.ca_file))
    monkeypatch.setenv(MEMBER_VARIABLE, str(locked.member_secret_file))
    monkeypatch.setenv(ACCESS_KEY_VARIABLE, "admin")
    monkeypatch.setenv(SECRET_KEY_VARIABLE, "other")
    return monkeypatch


@pytest.mark.usefixtures("variables")
def test_a_super_user_moves_the_time_of_all_roles(locked: Cluster, console: Console) -> None:
    before = locked.time_ms
    moved = console("clock", "advance", "5", "-o", "json")
    assert (moved.status, moved.err) == (0, "")
    assert {"nameserver-1", "broker-a"} <= set(moved.json["moved"])
    shown = console("clock", "show", "-o", "json")
    assert {each["name"]: (each["kind"], each["time_ms"]) for each in shown.json} == {
        "nameserver-1": ("manual", before + 5_000),
        "broker-a": ("manual", before + 5_000),
    }


def test_a_normal_user_does_not_and_reads_why(
    variables: pytest.MonkeyPatch, locked: Cluster, console: Console
) -> None:
    variables.setenv(ACCESS_KEY_VARIABLE, "shop")
    variables.setenv(SECRET_KEY_VARIABLE, "secret")
    shown = console("clock", "show")
    [broker] = [row for row in shown.rows if row[0] == "broker-a"]
    assert "User:shop" in broker[-1]


def test_whoever_lacks_the_secret_reads_what_to_set(
    variables: pytest.MonkeyPatch, console: Console
) -> None:
    variables.delenv(MEMBER_VARIABLE)
    listed = console("topic", "list")
    assert listed.status == 1
    assert MEMBER_VARIABLE in listed.err
    assert MEMBER_VARIABLE in console("clock", "show").out
    assert MEMBER_VARIABLE in console("clock", "advance", "5").err
    [said] = console("doctor", "-o", "json").json
    assert said["state"] == "wrong"
    assert MEMBER_VARIABLE in said["found"]
    assert "start it" not in said["advice"], "it runs"


def test_the_secret_is_enough_beside_tls_and_a_key(
    variables: pytest.MonkeyPatch, console: Console, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.touch(0o600)
    wrong.write_text("another secret, which is as long as it has to be")
    assert console("topic", "list").status == 0
    variables.setenv(MEMBER_VARIABLE, str(wrong))
    refused = console("topic", "list")
    assert refused.status == 1
    assert "give both the same member_secret_file" in refused.err
