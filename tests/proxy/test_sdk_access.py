"""RocketMQ's official Python SDK, as published, with clusters whose proxy checks users (G-140)."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any, Final

import pytest

from pocketmq.client import Admin
from pocketmq.cluster.local import local_cluster
from pocketmq.testing import start_cluster
from pocketmq.testing.cluster import Cluster
from support.eventually import PATIENCE_MS
from support.official_sdk import run_sdk
from support.sdk_world import START, printed

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # a first run installs the SDK

USERS: Final = {"shop": "secret", "office": "other", "gone": "key"}
RULES: Final = [
    ("shop", "Topic:orders", "Pub"),
    ("office", "Topic:orders", "Sub"),
    ("office", "Group:billing", "Sub"),
    ("gone", "*", "All"),
]

SENDS: Final = """
import json
told = []
for user, secret, topic in json.loads(sys.argv[2]):
    where = ClientConfiguration(sys.argv[1], Credentials(user, secret), request_timeout=60)
    producer = Producer(where, (topic,))
    producer.startup()
    message = Message()
    message.topic, message.body = topic, (user or "nobody").encode()
    try:
        producer.send(message)
        told.append("sent")
    except Exception as refused:
        told.append(str(refused))
    producer.shutdown()
print(told)
"""
RECEIVES: Final = """
where = ClientConfiguration(sys.argv[1], Credentials(*sys.argv[2:4]), request_timeout=60)
consumer = simple("billing", "orders")
try:
    [message] = some(consumer, 1)
    consumer.ack(message)
    told = message.body.decode()
except Exception as refused:
    told = str(refused)
consumer.shutdown()
print([told])
"""


def told(code: str, *arguments: str) -> Any:
    return ast.literal_eval(run_sdk(START + code, *arguments).strip().splitlines()[-1])


async def disable(cluster: Cluster, user: str) -> None:
    async with Admin(
        nameservers=cluster.nameservers, credentials=cluster.super_user, api_timeout_ms=PATIENCE_MS
    ) as admin:
        await admin.update_user(user, is_enabled=False)


async def bodies(cluster: Cluster) -> list[bytes]:
    async with Admin(
        nameservers=cluster.nameservers, credentials=cluster.super_user, api_timeout_ms=PATIENCE_MS
    ) as admin:
        return [
            message.body
            for topic in ("orders", "bills")
            for queue in await admin.subscribe_queues(topic)
            for message in (await admin.read(queue, 0)).messages
        ]


@pytest.mark.parametrize("mode", ["in-process", "processes"])
def test_a_right_key_works_and_others_are_refused_and_change_nothing(mode: Any) -> None:
    with start_cluster(proxy=True, users=USERS, acl=RULES, mode=mode) as cluster:
        for topic in ("orders", "bills"):
            cluster.sync.create_topic(topic)
        cluster.thread.result(disable(cluster, "gone"))
        tries = [
            ("shop", "secret", "orders"),
            ("shop", "wrong", "orders"),
            ("nobody", "secret", "orders"),
            ("", "", "orders"),
            ("gone", "key", "orders"),
            ("shop", "secret", "bills"),
            ("office", "other", "orders"),
        ]
        sent, *no_route, no_right = told(SENDS, cluster.endpoints, json.dumps(tries))
        assert sent == "sent"
        # All that this SDK says of a refused route; tests/proxy/test_access.py has the reasons.
        assert [text.partition(":")[0] for text in no_route] == ["failed to fetch topic"] * 5
        assert "User:office has no permission to access Topic:orders from 127.0.0.1" in no_right
        assert cluster.thread.result(bodies(cluster)) == [b"shop"]

        # A broker's port passes an SDK on; it is checked as the one that it is.
        [denied] = told(RECEIVES, cluster.nameservers, "shop", "secret")
        assert "User:shop has no permission to access Group:billing" in denied
        assert told(RECEIVES, cluster.endpoints, "office", "other") == ["shop"]


async def test_the_clusters_of_scripts_check_users_too(tmp_path: Path) -> None:
    users = tmp_path / "users.toml"
    users.write_text('[users]\nshop = "secret"\n')  # and no rules: a signature is enough
    async with local_cluster(users=users, proxy=True) as cluster:
        async with Admin(
            nameservers=cluster.namesrv_addr,
            credentials=("shop", "secret"),
            api_timeout_ms=PATIENCE_MS,
        ) as admin:
            await admin.create_topic("orders")
        tries = [("shop", "secret", "orders"), ("shop", "wrong", "orders")]
        code = f"sys.argv.append({json.dumps(tries)!r})\n" + SENDS
        sent, refused = await printed(cluster.endpoints, code)
        assert (sent, refused) == ("sent", "failed to fetch topic:orders route.")
