"""`pocketmq topic stats` and `delete`, `connections`, `--version` and completion."""

from __future__ import annotations

import asyncio
import io
import os
import platform
import subprocess
import sys

import pytest

from pocketmq.client import Admin, Message
from pocketmq.protocol.bodies.groups import SubscriptionGroupConfig
from pocketmq.testing import Cluster, start_cluster
from support.console import Console, until
from support.eventually import PATIENCE_MS, PATIENCE_S


def test_stats_tell_bounds_and_times_of_queues(pocketmq: Cluster, console: Console) -> None:
    topic = pocketmq.sync.create_topic("orders", queues=2)
    with pocketmq.sync.producer() as producer:
        for number in range(3):
            producer.send(Message(topic, b"x"), key=str(number))
    told = console("topic", "stats", topic, "-o", "json").json
    assert (told["topic"], told["messages"]) == (topic, 3)
    assert sum(each["max_offset"] - each["min_offset"] for each in told["queues"]) == 3
    filled = [each for each in told["queues"] if each["max_offset"]]
    assert all(each["last_update_ms"] > 1_700_000_000_000 for each in filled)
    [broker] = told["brokers"]
    assert broker["broker"] == "broker-a"
    assert broker["in_per_s"] is None or broker["in_per_s"] >= 0
    rows = console("topic", "stats", topic).rows
    assert [row[:2] for row in rows] == [
        ["queue", "broker-a/0"], ["queue", "broker-a/1"], ["broker", "broker-a"],
    ]  # fmt: skip
    assert "no name server knows a route" in console("topic", "stats", "nowhere").error


def test_rates_come_from_the_brokers_last_minute(pocketmq_clock: Cluster, console: Console) -> None:
    topic = pocketmq_clock.sync.create_topic("orders", queues=1)
    with (
        pocketmq_clock.sync.producer() as producer,
        pocketmq_clock.sync.consumer("billing", topic) as billing,
    ):
        for _ in range(2):
            for _ in range(10):
                producer.send(Message(topic, b"x"))
            pocketmq_clock.sync.advance(seconds=30)
            for _ in range(10):
                billing.receive(limit_s=PATIENCE_S)
        pocketmq_clock.sync.advance(seconds=10)
    [broker] = console("topic", "stats", topic, "-o", "json").json["brokers"]
    assert 0 < broker["in_per_s"] <= 1
    assert 0 < broker["out_per_s"] <= 1


def test_a_topic_is_deleted_on_brokers_and_nameservers(
    pocketmq: Cluster, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = pocketmq.sync.create_topic("orders")
    console("send", topic, "hello")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    kept = console("topic", "delete", topic)
    assert (kept.status, kept.out) == (1, "")
    assert f"Delete topic {topic} with 1 message? [y/N]" in kept.err
    assert kept.err.endswith("pocketmq: nothing was deleted; answer y, or add --yes\n")
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert console("topic", "delete", topic).status == 1, "nobody answers"
    assert [topic] in console("topic", "list").rows
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert console("topic", "delete", topic).out == f"topic {topic} is deleted\n"
    assert [topic] not in console("topic", "list").rows
    assert "no name server knows a route" in console("topic", "delete", topic, "--yes").error


@pytest.mark.parametrize(
    "topic", ["TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "RMQ_SYS_TRANS_HALF_TOPIC"]
)
def test_a_system_topic_is_not_deleted(console: Console, topic: str) -> None:
    refused = console("topic", "delete", topic, "--yes")
    assert (
        refused.error == f"topic '{topic}' is a system topic of the cluster and cannot be deleted"
    )


def test_a_group_that_nobody_knows_is_not_reset(pocketmq: Cluster, console: Console) -> None:
    topic, group = pocketmq.sync.create_topic("orders"), pocketmq.group_name("nobody")
    error = console("group", "reset", group, topic, "--to", "start").error
    assert error.startswith(
        f"no broker knows group {group!r}, because no consumer has used this name"
    )


def test_a_reset_leaves_brokers_out_that_do_not_know_the_group(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_cluster(brokers=2) as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.nameservers)
        cluster.sync.create_topic("orders", queues=1)

        async def make_group() -> None:
            async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
                config = SubscriptionGroupConfig(group_name="billing")
                await admin.create_group(config, brokers=["broker-b"])

        asyncio.run(make_group())
        for words in (["--dry-run"], []):
            said = console("group", "reset", "billing", "orders", "--to", "start", *words)
            assert (said.status, said.err) == (0, "")
            assert "broker-b/0" in said.out
            assert "broker-a" not in said.out


def test_connections_name_producers_and_consumers(pocketmq: Cluster, console: Console) -> None:
    topic, group = pocketmq.sync.create_topic("orders"), pocketmq.group_name("billing")
    shop = pocketmq.group_name("shop")
    with (
        pocketmq.sync.producer(shop) as producer,
        pocketmq.sync.consumer(group, topic),
    ):
        producer.send(Message(topic, b"x"))
        pocketmq.sync.group(group).assigned(limit_s=PATIENCE_S)
        ask = ("connections", "--group", group, "--group", shop, "-o", "json")
        until(lambda: console(*ask).status == 0, "the broker has heard of both")
        found = console(*ask).json
        rows = console("connections", "--group", group).rows
    assert [(each["broker"], each["role"], each["group"]) for each in found] == [
        ("broker-a", "consumer", group), ("broker-a", "producer", shop),
    ]  # fmt: skip
    for each in found:
        assert each["client_id"].startswith(each["address"].partition(":")[0])
        assert each["address"].partition(":")[2].isdigit()
        assert (each["language"], each["version"] > 0) == ("PYTHON", True)
    assert [row[:3] for row in rows] == [["broker-a", "consumer", group]]
    assert (
        "no client of group 'nobody' is connected"
        in console("connections", "--group", "nobody").error
    )
    assert "broker 'z' has no known address" in console("connections", "--broker", "z").error


def test_version_tells_what_a_report_of_a_problem_needs(console: Console) -> None:
    first, *others = console("--version").out.splitlines()
    assert first.startswith("pocketmq 0.")
    assert others[0].startswith(f"Python {platform.python_version()}")
    assert others[1].startswith("uvloop ")
    assert others[2].startswith("profile 5.x: as RocketMQ 5.")
    for command in ("up", "topic list", "message show", "broker", "ready"):
        assert console(*command.split(), "--version").out.splitlines() == [first, *others]


@pytest.mark.parametrize("role", ["nameserver", "controller", "broker", "proxy"])
def test_a_role_that_is_started_as_a_module_tells_its_version_too(role: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"pocketmq.{role}", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith("pocketmq 0.")


def completed(line: str, nameservers: str, control: str = "") -> list[str]:
    """What bash is offered at the end of a line."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "pocketmq.cluster.cli.main"],
        capture_output=True, text=True, check=False,
        env=os.environ
        | {
            "_POCKETMQ_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            "NAMESRV_ADDR": nameservers,
            "POCKETMQ_CONTROL": control,
        },
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_names_that_the_cluster_knows(pocketmq: Cluster) -> None:
    topic = pocketmq.sync.create_topic("orders")
    assert completed(f"pocketmq topic stats {topic[:-2]}", pocketmq.nameservers) == [topic]
    assert completed("pocketmq topic stats o", "127.0.0.1:1") == [], "no cluster, no error"


def test_a_shell_completes_roles_queues_and_what_a_fault_can_be(pocketmq: Cluster) -> None:
    topic, where = pocketmq.sync.create_topic("orders", queues=2), pocketmq.nameservers
    tail = f"pocketmq message tail {topic} --queue "
    assert completed(tail, where) == ["broker-a/0", "broker-a/1"]
    assert completed(f"pocketmq message show {topic} ", where) == ["broker-a/0", "broker-a/1"]
    assert completed("pocketmq cluster show ", where) == ["broker-a"]
    assert completed("pocketmq kill br", where, pocketmq.control_url) == ["broker-a"]
    parted = ["nameserver-1", "broker-a", "others", "clients"]
    assert completed("pocketmq partition broker-a ", where, pocketmq.control_url) == parted
    assert completed("pocketmq fault add di", where) == ["disk-full", "disk-error"]
    assert completed("pocketmq kill br", where, "http://127.0.0.1:1") == []


def test_the_script_for_a_shell_is_shown(console: Console) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from pocketmq.cluster.cli.main import main; main()",
         "--show-completion", "bash"],
        # As in a shell: what runs the tests may be one that typer does not know.
        env=os.environ | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "_POCKETMQ_COMPLETE=complete_bash" in done.stdout
