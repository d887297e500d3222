"""Passwords and keys of a cluster are in no log, no answer and no snapshot that did not ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pocketmq.client import Admin, Message
from pocketmq.testing import Cluster, start_cluster
from support.eventually import PATIENCE_MS

SECRETS = {"shop": "s3cret-of-shop", "admin": "s3cret-of-admin"}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Cluster]:
    with start_cluster(
        users={"shop": SECRETS["shop"]},
        super_users={"admin": SECRETS["admin"]},
        data=tmp_path / "data",
    ) as cluster:
        cluster.sync.create_topic("orders")
        yield cluster


def files_with_secrets(folder: Path, cluster: Cluster) -> set[str]:
    assert cluster.super_user is not None
    secrets = [*SECRETS.values(), cluster.super_user.secret_key]
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and any(each.encode() in path.read_bytes() for each in secrets)
    }


async def test_a_snapshot_has_secrets_only_where_they_are_asked_for(
    secured: Cluster, tmp_path: Path
) -> None:
    control, run = secured.control, secured.thread.run
    await run(control.save_snapshot(tmp_path / "plain"))
    await run(control.save_snapshot(tmp_path / "whole", with_secrets=True))
    assert files_with_secrets(tmp_path / "plain", secured) == set()
    assert "broker-a/config/access.json" in files_with_secrets(tmp_path / "whole", secured)
    assert secured.super_user is not None

    async def users() -> set[str | None]:
        async with Admin(
            nameservers=secured.nameservers,
            credentials=secured.super_user,
            api_timeout_ms=PATIENCE_MS,
        ) as admin:
            return {each.username for each in (await admin.users())["broker-a"]}

    async with Admin(
        nameservers=secured.nameservers, credentials=secured.super_user, api_timeout_ms=PATIENCE_MS
    ) as admin:
        await admin.create_user("later", "x")
    await secured.load_snapshot(tmp_path / "plain")
    assert await users() == {"shop", "admin", "pocketmq", "later"}, "users stay as they are"
    await secured.load_snapshot(tmp_path / "whole")
    assert await users() == {"shop", "admin", "pocketmq"}, "those of the snapshot"


async def test_a_snapshot_with_users_of_another_cluster_locks_nobody_out(
    secured: Cluster, tmp_path: Path
) -> None:
    run = secured.thread.run
    await run(secured.control.save_snapshot(tmp_path / "whole", with_secrets=True))
    other = start_cluster(users={"billing": "x"}, data=tmp_path / "other")
    with other as cluster:
        assert cluster.super_user is not None
        assert secured.super_user is not None
        assert cluster.super_user.secret_key != secured.super_user.secret_key
        await cluster.load_snapshot(tmp_path / "whole")
        async with Admin(
            nameservers=cluster.nameservers,
            credentials=cluster.super_user,
            api_timeout_ms=PATIENCE_MS,
        ) as admin:
            users = {each.username for each in (await admin.users())["broker-a"]}
        assert users >= {"shop", "admin", "pocketmq"}, "the users of the snapshot"


def test_no_log_no_configuration_and_no_page_has_a_secret(secured: Cluster) -> None:
    with secured.sync.producer(credentials=("shop", SECRETS["shop"])) as producer:
        producer.send(Message("orders", b"x"))
    with (
        pytest.raises(Exception, match="signature"),
        secured.sync.producer(credentials=("shop", "s3cret-wrong")) as producer,
    ):
        producer.send(Message("orders", b"x"))

    async def config() -> str:
        async with Admin(
            nameservers=secured.nameservers,
            credentials=secured.super_user,
            api_timeout_ms=PATIENCE_MS,
        ) as admin:
            return json.dumps(await admin.broker_config("broker-a"))

    assert secured.super_user is not None
    secrets = [*SECRETS.values(), secured.super_user.secret_key, "s3cret-wrong"]
    told = [
        secured.thread.result(config()),
        *(secured.control.roles.log_tail(each, 1000) for each in secured.roles),
        secured.report(),
        repr(secured.control._access),
    ]
    for text in told:
        assert not [each for each in secrets if each in text], text[:2000]
    assert "authenticationEnabled" in told[0]
