"""RocketMQ's official Python SDK, as published, with clusters that have a proxy."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pocketmq.client import Admin
from pocketmq.cluster.local import local_cluster
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.scalars import MessageType
from pocketmq.runtime.errors import ConfigError
from pocketmq.testing import start_cluster
from pocketmq.testing.cluster import Cluster
from support.eventually import PATIENCE_MS
from support.nested_pytest import pytest_command
from support.official_sdk import run_sdk, sdk_python

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # a first run installs the SDK

SENDS = """
import json, sys, time
from rocketmq import (ClientConfiguration, Credentials, Message, Producer, TransactionChecker,
                      TransactionResolution)

class Commits(TransactionChecker):
    def check(self, message):
        return TransactionResolution.COMMIT

def message(topic):
    made = Message()
    made.topic, made.body, made.tag, made.keys = topic, topic.encode(), "t", "k"
    made.add_property("color", "red")
    return made

where = ClientConfiguration(sys.argv[1], Credentials(), request_timeout=60)
producer = Producer(where, ("normal", "fifo", "delay"))
producer.startup()
sent = {"normal": producer.send(message("normal")).message_id}
ordered = message("fifo")
ordered.message_group = "order-42"
sent["fifo"] = producer.send(ordered).message_id
delayed = message("delay")
delayed.delivery_timestamp = int(time.time()) + 3600
receipt = producer.send(delayed)
sent["delay"] = receipt.message_id
try:
    producer.send(message("fifo"))
except Exception as refused:
    sent["refused"] = str(refused)
producer.shutdown()

producer = Producer(where, ("transaction",), checker=Commits())
producer.startup()
for resolution in ("commit", "rollback"):
    transaction = producer.begin_transaction()
    sent[resolution] = producer.send(message("transaction"), transaction).message_id
    getattr(transaction, resolution)()
producer.shutdown()
print(json.dumps(sent))
"""
RECEIVES = """
import sys
from rocketmq import ClientConfiguration, Credentials, FilterExpression, SimpleConsumer

where = ClientConfiguration(sys.argv[1], Credentials(), request_timeout=60)
consumer = SimpleConsumer(where, "billing", {"normal": FilterExpression("t")}, 10)
consumer.startup()
while not (received := consumer.receive(1, 30)):
    pass
[message] = received
print(message.message_id, message.body.decode(), message.tag, *message.keys, message.properties)
consumer.ack(message)
consumer.shutdown()
"""
TOPICS: dict[str, MessageType] = {
    "normal": "NORMAL", "fifo": "FIFO", "delay": "DELAY", "transaction": "TRANSACTION",
}  # fmt: skip


def check_sent(cluster: Cluster, sent: dict[str, str]) -> None:
    """What the SDK was told is what is stored."""

    async def stored(topic: str) -> list[Any]:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            found = []
            for queue in await admin.subscribe_queues(topic):
                found += (await admin.read(queue, 0)).messages
            return found

    def read(topic: str) -> list[Any]:
        return cluster.thread.result(stored(topic))

    for topic, what in [("normal", "normal"), ("fifo", "fifo"), ("transaction", "commit")]:
        [message] = read(topic)
        assert message.properties[names.UNIQ_KEY] == sent[what]
        assert (message.body, message.tags, message.keys) == (topic.encode(), "t", "k")
        assert message.properties["color"] == "red"
        assert message.properties[names.BORN_HOST]
    assert read("delay") == []  # not before its time


@pytest.mark.parametrize("mode", ["in-process", "processes"])
def test_it_sends_messages_of_each_type_and_receives(mode: Any) -> None:
    with start_cluster(proxy=True, mode=mode) as cluster:
        for topic, kind in TOPICS.items():
            cluster.sync.create_topic(topic, message_type=kind)
        sent = json.loads(run_sdk(SENDS, cluster.endpoints).splitlines()[-1])
        assert "fifo" in sent.pop("refused")  # the SDK itself refuses, by the route's types
        check_sent(cluster, sent)
        shown = run_sdk(RECEIVES, cluster.nameservers)  # a wrong port, and it works
        assert shown == f"{sent['normal']} normal t k {{'color': 'red'}}\n"
        if mode == "in-process":  # once more, after the proxy was killed
            cluster.sync.kill("proxy-1")
            cluster.sync.restart("proxy-1")
            assert json.loads(run_sdk(SENDS, cluster.endpoints).splitlines()[-1])["commit"]


async def test_the_clusters_of_scripts_have_a_proxy_too() -> None:
    async with local_cluster(proxy=True) as cluster:
        async with Admin(nameservers=cluster.namesrv_addr, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.create_topic("normal")
        sends = SENDS.partition("ordered =")[0] + "producer.shutdown()"
        assert run_sdk(sends, cluster.endpoints) == ""
        await cluster["proxy-1"].kill()
        before = cluster.endpoints
        await cluster.restart("proxy-1")
        assert cluster.endpoints == before  # SDKs know it by its port
        assert run_sdk(sends, cluster.endpoints) == ""


TEST = """
import subprocess, sys

def test_an_sdk_sends(pocketmq):
    topic = pocketmq.sync.create_topic("normal")
    code = sys.argv and open("sends.py").read()
    words = [{python!r}, "-c", code, pocketmq.endpoints, topic]
    assert subprocess.run(words, timeout=100).returncode == 0
"""


def test_the_fixture_has_one_when_the_ini_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\npocketmq_proxy = true\n")
    sends = SENDS.partition("ordered =")[0] + "producer.shutdown()"
    sends = sends.replace('("normal", "fifo", "delay")', "(sys.argv[2],)")
    (tmp_path / "sends.py").write_text(sends.replace('"normal"', "sys.argv[2]"))
    (tmp_path / "test_it.py").write_text(TEST.format(python=str(sdk_python())))
    done = subprocess.run(
        pytest_command(tmp_path), cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_cluster_without_a_proxy_says_how_to_have_one() -> None:
    with start_cluster() as cluster, pytest.raises(ConfigError, match="start it with proxy=True"):
        _ = cluster.endpoints
