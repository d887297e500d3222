"""A command that is told no nameservers finds the cluster that `pocketmq ps` finds."""

from __future__ import annotations

import json
import socket

import pytest

from pocketmq.client import Message
from pocketmq.cluster.cli.common import run as shared
from pocketmq.cluster.control_address import client as control_client
from pocketmq.cluster.control_address.client import VARIABLE
from pocketmq.testing import Cluster
from support.console import Console


@pytest.fixture
def told_nothing(console: Console, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No variable says where the cluster is, and nobody uses the usual ports."""
    monkeypatch.delenv("NAMESRV_ADDR")
    monkeypatch.delenv(VARIABLE, raising=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(control_client, "DEFAULT_URL", nobody)
    return monkeypatch


@pytest.mark.parametrize("by", ["variable", "usual port"])
def test_client_commands_find_the_cluster_where_ps_finds_it(
    pocketmq: Cluster, console: Console, told_nothing: pytest.MonkeyPatch, by: str
) -> None:
    if by == "variable":
        told_nothing.setenv(VARIABLE, pocketmq.control_url)
    else:
        told_nothing.setattr(control_client, "DEFAULT_URL", pocketmq.control_url)
    shown = console("ps", "-o", "json").json
    topic = pocketmq.topic_name("found")
    made = console("topic", "create", topic)
    sent = console("send", topic, "hello", "-o", "json")
    assert (made.status, sent.status) == (0, 0), (made, sent)
    assert json.loads(sent.out)["status"] == "SEND_OK"
    # it is not the usual address, so the command says which it took: not where its answer goes
    where = f"pocketmq: NAMESRV_ADDR={shown['nameservers']}, of the cluster that runs here\n"
    assert (made.err, sent.err) == (where, where)


def test_a_command_that_is_told_nameservers_looks_nowhere_else(
    pocketmq: Cluster, console: Console, told_nothing: pytest.MonkeyPatch
) -> None:
    told_nothing.setenv(VARIABLE, "http://127.0.0.1:1")
    listed = console("topic", "list", "-n", pocketmq.nameservers)
    assert (listed.status, listed.err) == (0, "")
    told_nothing.setenv("NAMESRV_ADDR", pocketmq.nameservers)
    listed = console("topic", "list")
    assert (listed.status, listed.err) == (0, "")


def test_where_no_control_address_answers_the_usual_nameserver_is_asked(
    console: Console, told_nothing: pytest.MonkeyPatch
) -> None:
    assert shared.find_nameservers() == "127.0.0.1:9876"
    told_nothing.setenv(VARIABLE, "http://127.0.0.1:1")
    assert "no control address answers at http://127.0.0.1:1" in console("topic", "list").error


def test_a_command_that_needs_no_cluster_looks_for_none(
    pocketmq: Cluster, console: Console, told_nothing: pytest.MonkeyPatch
) -> None:
    told_nothing.setenv(VARIABLE, pocketmq.control_url)
    topic = pocketmq.sync.create_topic("at-rest")
    with pocketmq.sync.producer() as producer:
        producer.send(Message(topic, b"so that there is a store"))
    for words in (
        ["group", "simulate", "t", "--queues", "4"],
        ["pipeline", "latency", f"store:{pocketmq.data / 'broker-a'}"],
    ):
        done = console(*words)
        assert (done.status, "NAMESRV_ADDR" in done.err) == (0, False), done


def test_an_empty_address_is_a_mistake(console: Console) -> None:
    assert "names no address; write host:port" in console("topic", "list", "-n", "").error


def test_a_changed_topic_says_how_many_queues_it_had(pocketmq: Cluster, console: Console) -> None:
    topic = pocketmq.topic_name("growing")
    assert console("topic", "create", topic).out == f"{topic}: 4 queues on each of broker-a\n"
    changed = console("topic", "create", topic, "--queues", "8", "--update")
    assert changed.out.splitlines() == [
        f"{topic}: 8 queues on each of broker-a",
        f"{topic} was there: broker-a 4 -> 8 queues",
    ]
    again = console("topic", "create", topic, "--queues", "8", "--update", "-o", "json").json
    assert again["queues_before"] == {}, "nothing changed"
    fewer = console("topic", "create", topic, "--queues", "2", "--update", "-o", "json").json
    assert fewer["queues_before"] == {"broker-a": 8}


def test_a_delay_is_written_as_a_duration(pocketmq: Cluster, console: Console) -> None:
    topic = pocketmq.sync.create_topic("later", queues=1)
    sent = console("send", topic, "hello", "--delay", "2h", "-o", "json").json
    stored = console(
        "message", "show", sent["msgId"], "--topic", "SCHEDULE_TOPIC_XXXX", "-o", "json"
    )
    assert stored.status == 0, stored
    assert '"DELAY": "18"' in stored.out, stored
