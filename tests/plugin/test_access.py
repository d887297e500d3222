"""A cluster for tests whose brokers take signed requests only: `start_cluster(users=, acl=)`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import Message
from pocketmq.client.producer.send_tries import SendFailedError
from pocketmq.protocol.errors import BrokerError
from pocketmq.runtime.errors import ConfigError
from pocketmq.testing import Cluster, start_cluster

ROOT = Path(__file__).resolve().parents[2]
SHOP = ("shop", "s3cret")
USERS = {"shop": "s3cret", "office": "0ther"}
RULES = [
    ("shop", "Topic:orders", "Pub"),
    ("office", "Topic:orders", "Sub"),
    ("office", "Group:*", "Sub"),
]


@pytest.fixture(
    scope="module",
    params=["in-process", pytest.param("processes", marks=pytest.mark.cluster)],
)
def secured(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with start_cluster(users=USERS, acl=RULES, mode=request.param) as cluster:
        cluster.sync.create_topic("orders")
        yield cluster


def test_users_do_what_their_rules_allow(secured: Cluster) -> None:
    with secured.sync.producer(credentials=SHOP) as producer:
        producer.send(Message("orders", b"hello"))
    with secured.sync.consumer("billing", "orders", credentials=("office", "0ther")) as consumer:
        assert consumer.receive().body == b"hello"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (("shop", "wrong"), "check signature failed"),
        (("office", "0ther"), "no matched policies"),
        (None, "username cannot be null"),
    ],
)
def test_a_service_with_a_wrong_key_is_refused(secured: Cluster, key: Any, reason: str) -> None:
    with (
        pytest.raises((BrokerError, SendFailedError)) as refused,
        secured.sync.producer(credentials=key) as producer,
    ):
        producer.send(Message("orders", b"hello"))

    assert reason in str(refused.value)


def test_the_test_on_the_page_proves_what_it_says() -> None:
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    [block] = [each for each in blocks if "def test_a_wrong_key_is_refused" in each]
    names: dict[str, Any] = {}
    exec(compile(block, "docs/security.md", "exec"), names)

    names["test_a_wrong_key_is_refused"]()


def test_the_cluster_is_steered_and_watched_as_before(secured: Cluster) -> None:
    secured.faults.add("fail", code="SEND_MESSAGE", with_code="SYSTEM_BUSY", nth=1)
    secured.faults.clear()
    secured.sync.create_topic("more")
    assert secured.state("broker-a") == "running"
    assert secured.super_user is not None
    assert secured.super_user.secret_key not in repr(secured.super_user)


def test_users_are_there_again_after_a_reset() -> None:
    with start_cluster(users=USERS) as cluster:
        cluster.sync.reset()
        with cluster.sync.producer(credentials=SHOP) as producer:
            producer.send(Message("orders", b"without rules all is allowed that is signed"))
        wrong = cluster.sync.producer(credentials=("shop", "x"))
        with pytest.raises((BrokerError, SendFailedError)), wrong as producer:
            producer.send(Message("orders", b"x"))


def test_time_moves_in_a_secured_cluster() -> None:
    with start_cluster(users=USERS, clock="manual") as cluster:
        before = cluster.sync.time_ms
        cluster.sync.advance(seconds=60)
        assert cluster.sync.time_ms - before == 60_000


@pytest.mark.parametrize(
    "options",
    [
        {"users": {"shop": ""}},
        {"users": {"pocketmq": "x"}},
        {"users": {"shop": "x"}, "acl": [("other", "*", "All")]},
        {"acl": [("shop", "Topic:a")]},
    ],
)
def test_users_and_rules_that_make_no_sense_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError), start_cluster(**options):
        pass
