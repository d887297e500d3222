"""`topic create` of what is there, `send` with properties, `doctor`, `wipe`, empty listings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from pocketmq.client import Admin, MessageQueue
from pocketmq.cluster.cli.common.complete import complete_request_code, complete_response_code
from pocketmq.cluster.doctor import Check, examine, lacking, of_figures, reachable, versions
from pocketmq.protocol.messages import properties as names
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing import Cluster
from support.console import Console
from support.eventually import PATIENCE_MS

NOW_MS = 1_700_000_000_000


def queues_of(cluster: Cluster, topic: str) -> int:
    with cluster.sync.admin() as admin:
        return admin.topic_configs("broker-a")[topic].write_queue_nums


def test_creating_a_topic_that_is_there_says_what_would_change(
    pocketmq: Cluster, console: Console
) -> None:
    topic = pocketmq.sync.create_topic("orders", queues=4)
    error = console("topic", "create", topic, "--queues", "8").error
    assert error == (
        f"topic {topic} already exists, and nothing was changed; --update would make these "
        "changes: broker-a: 4 -> 8 queues"
    )
    assert queues_of(pocketmq, topic) == 4
    assert (
        "no message type -> FIFO"
        in console("topic", "create", topic, "--message-type", "FIFO").error
    )
    for words in ((), ("--queues", "4")):
        said = console("topic", "create", topic, *words)
        assert said.out == f"{topic} is there already; nothing was changed\n"
    console("topic", "create", topic, "--queues", "8", "--update")
    assert queues_of(pocketmq, topic) == 8


def test_creating_a_topic_leaves_it_as_it_is_where_it_is(
    pocketmq_cluster_factory: Callable[..., Cluster], console: Console
) -> None:
    cluster = pocketmq_cluster_factory(brokers=2)
    there = ("-n", cluster.nameservers)
    console("topic", "create", "orders", "--queues", "8", "--broker", "broker-a", *there)
    assert console("topic", "create", "orders", *there).status == 0
    assert queues_of(cluster, "orders") == 8
    with cluster.sync.admin() as admin:
        assert admin.topic_configs("broker-b")["orders"].write_queue_nums == 4


def test_a_message_is_sent_with_properties_and_any_delay(
    pocketmq: Cluster, console: Console
) -> None:
    topic = pocketmq.sync.create_topic("orders", queues=1)
    with_both = console("send", topic, "x", "--property", "region=eu", "--property", "a=b=c")
    assert with_both.status == 0, with_both
    assert console("send", topic, "x", "--delay", "95s").status == 0
    assert console("send", topic, "x", "--delay", "2h").status == 0

    async def found() -> dict[str, str]:
        async with Admin(nameservers=pocketmq.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            read = await admin.read(MessageQueue(topic, "broker-a", 0), 0)
        return read.messages[0].properties

    properties = asyncio.run(found())
    assert (properties["region"], properties["a"]) == ("eu", "b=c")
    assert names.DELAY not in properties
    assert "reserved for RocketMQ" in console("send", topic, "x", "--property", "TAGS=y").error


def test_codes_are_completed() -> None:
    assert complete_request_code("send_mess") == [
        "SEND_MESSAGE", "SEND_MESSAGE_V2",
    ]  # fmt: skip
    assert complete_response_code("SYSTEM_B") == ["SYSTEM_BUSY"]


def test_nothing_is_said_to_be_nothing(pocketmq_clock: Cluster, console: Console) -> None:
    for words, kind in (
        (("topic", "list"), "topic"),
        (("group", "list"), "group"),
        (("connections",), "connection"),
        (("fault", "list", "--control", pocketmq_clock.control_url), "rule"),
        (("snapshot", "list", "--control", pocketmq_clock.control_url), "snapshot"),
    ):
        said = console(*words)
        assert (said.status, said.out) == (0, ""), words
        assert said.err == f"pocketmq: there is no {kind}\n"
        assert console(*words, "-o", "json").json == []


def test_a_cluster_is_wiped_and_the_old_name_says_the_new_one(
    pocketmq_cluster: Cluster, console: Console
) -> None:
    pocketmq_cluster.sync.create_topic("orders")
    said = console("wipe", "--yes", "--control", pocketmq_cluster.control_url)
    assert (said.status, said.err) == (0, "")
    assert console("topic", "list").out == ""
    said = console("reset", "--yes", "--control", pocketmq_cluster.control_url)
    assert said.status == 0
    assert "`reset` is called `wipe` now" in said.err


# -- doctor -------------------------------------------------------------------------------------


def test_a_cluster_that_is_well_gets_no_advice_that_must_be_followed(
    pocketmq: Cluster, console: Console
) -> None:
    topic = pocketmq.sync.create_topic("orders")
    said = console("doctor", "-o", "json")
    checks = {(each["what"], each["of"]): each for each in said.json}
    assert checks["nameserver", pocketmq.nameservers]["state"] == "ok"
    assert checks["address", "broker-a"]["state"] == "note", "127.0.0.1 is this machine's only"
    assert checks["clock", "broker-a"]["state"] == "ok"
    assert ("disk", "broker-a") in checks
    assert topic not in [of for _, of in checks]
    assert said.status == 0
    assert all(each["state"] != "wrong" for each in said.json)
    rows = console("doctor").rows
    assert rows[0][:3] == ["nameserver", pocketmq.nameservers, "ok"]


def test_a_manual_clock_is_no_fault(pocketmq_clock: Cluster, console: Console) -> None:
    pocketmq_clock.sync.advance(3600)
    said = console("doctor", "-n", pocketmq_clock.nameservers, "-o", "json")
    [clock] = [each for each in said.json if each["what"] == "clock"]
    assert (said.status, clock["state"]) == (0, "note")
    assert clock["found"].startswith("manual, 3,")
    assert "pocketmq clock advance" in clock["advice"]


def test_what_does_not_answer_is_wrong_and_says_what_to_type(
    pocketmq_cluster: Cluster, console: Console
) -> None:
    pocketmq_cluster.sync.kill("broker-a")
    silent = "127.0.0.1:9"
    checks = asyncio.run(examine([silent, *pocketmq_cluster.nameservers.split(";")], SystemClock()))
    wrong = {each.what: each for each in checks if each.state == "wrong"}
    assert wrong["nameserver"].of == silent
    assert "pocketmq nameserver --port 9" in wrong["nameserver"].advice
    assert console("doctor", "-n", pocketmq_cluster.nameservers).status == 1
    if "address" in wrong:  # the nameserver has not yet noticed that the broker is gone
        assert "does not answer here" in wrong["address"].found
    else:
        assert "no broker is registered" in wrong["broker"].found


def test_a_broker_that_one_nameserver_does_not_know_is_named() -> None:
    known = {"one:9876": {"a": {0: "x:1"}, "b": {0: "x:2"}}, "two:9876": {"a": {0: "x:1"}}}
    [check] = lacking(known)
    assert (check.of, check.state, check.found) == ("two:9876", "wrong", "it does not know b")
    assert "give b every nameserver" in check.advice
    [nobody] = lacking({"one:9876": {}})
    assert "pocketmq up" in nobody.advice


@pytest.mark.parametrize(
    ("figures", "what", "state", "found"),
    [
        (
            {"bootTimestamp": str(NOW_MS - 65_000), "runtime": "[ 0 days, 0 hours, 1 minutes, 4 s"
             "econds ]"},
            "clock", "ok", "as this machine's",
        ),
        (
            {"bootTimestamp": str(NOW_MS), "runtime": "[ 1,000 days, 0 hours, 0 minutes, 0 seconds"
             " ]"},
            "clock", "wrong", "86,400,000 s ahead of this machine's",
        ),
        ({"commitLogDiskRatio": "0.95"}, "disk", "wrong", "95% in use"),
        ({"commitLogDiskRatio": "0.8"}, "disk", "note", "80% in use"),
        ({"commitLogDiskRatio": "0.2"}, "disk", "ok", "20% in use"),
    ],
)  # fmt: skip
def test_clock_and_disk_are_judged(
    figures: dict[str, str], what: str, state: str, found: str
) -> None:
    [check] = of_figures("broker-a", figures, NOW_MS)
    assert (check.what, check.state, check.found) == (what, state, found)
    assert bool(check.advice) == (state != "ok")


def test_a_clock_that_may_be_manual_is_not_judged() -> None:
    figures = {"bootTimestamp": str(NOW_MS), "runtime": "[ 1 days, 0 hours, 0 minutes, 0 seconds ]"}
    found = {
        manual: of_figures("broker-a", figures, NOW_MS, is_manual=manual)[0]
        for manual in (True, False, None)
    }
    assert [found[each].state for each in (True, False, None)] == ["note", "wrong", "note"]
    assert "super user" in found[None].advice


def test_releases_that_differ_are_told() -> None:
    both = {"a": {"brokerVersionDesc": "V5_3_3"}, "b": {"brokerVersionDesc": "V5_5_0"}}
    assert versions(both)[0].found == "a V5_3_3, b V5_5_0"
    assert versions({"a": both["a"]}) == [Check("version", "all brokers", "ok", "V5_3_3")]
    assert reachable("a", "10.0.0.1:10911").state == "ok"
