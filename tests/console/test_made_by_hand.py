"""`pocketmq topic create` and `update` with types, and `group create`, `update`, `delete`."""

from __future__ import annotations

import asyncio
import io

import pytest

from pocketmq.client import Admin
from pocketmq.protocol.bodies.groups import GroupRetryPolicy, SubscriptionGroupConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing import Cluster, start_cluster
from support.console import Console
from support.eventually import PATIENCE_MS

BROKER = "broker-a"


def topic_of(cluster: Cluster, topic: str) -> TopicConfig:
    """What the broker keeps of the topic."""

    async def ask() -> TopicConfig:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            return (await admin.topic_configs(BROKER))[topic]

    return asyncio.run(ask())


def group_of(cluster: Cluster, group: str) -> SubscriptionGroupConfig | None:
    """What the broker keeps of the group."""

    async def ask() -> SubscriptionGroupConfig | None:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            return (await admin.groups(BROKER)).get(group)

    return asyncio.run(ask())


# -- topics ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message_type", ["NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED", "PRIORITY"]
)
def test_a_topic_is_created_for_one_type_of_messages(
    pocketmq: Cluster, console: Console, message_type: str
) -> None:
    topic = pocketmq.topic_name("payments")
    made = console("topic", "create", topic, "--message-type", message_type.lower())
    assert (
        made.out == f"{topic}: 4 queues on each of {BROKER}, for messages of type {message_type}\n"
    )
    assert topic_of(pocketmq, topic).attributes == {"message.type": message_type}
    console("topic", "create", topic, "--queues", "5", "--update")
    assert topic_of(pocketmq, topic).attributes == {"message.type": message_type}, "it stays"


def test_an_update_leaves_what_it_does_not_say(pocketmq: Cluster, console: Console) -> None:
    topic = pocketmq.topic_name("orders")

    async def make() -> None:
        async with Admin(nameservers=pocketmq.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            await admin.create_topic(topic, queues=2, read_queues=3, perm=4, order=True)

    asyncio.run(make())
    typed = console("topic", "update", topic, "--message-type", "FIFO")
    assert typed.out == f"{topic} on {BROKER}: 2 queues, for messages of type FIFO\n"
    kept = topic_of(pocketmq, topic)
    assert (kept.read_queue_nums, kept.write_queue_nums, kept.perm, kept.order) == (3, 2, 4, True)
    told = console("topic", "update", topic, "--queues", "8", "-o", "json").json
    assert (told["queues_before"], told["queues"]) == ({BROKER: 2}, {BROKER: 8})
    kept = topic_of(pocketmq, topic)
    assert (kept.read_queue_nums, kept.write_queue_nums, kept.perm) == (8, 8, 4)
    assert kept.attributes == {"message.type": "FIFO"}

    async def order() -> str | None:
        async with Admin(nameservers=pocketmq.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            return await admin.get_kv("ORDER_TOPIC_CONFIG", topic)

    assert asyncio.run(order()) == f"{BROKER}:8"


def test_a_wrong_change_of_a_topic_is_one_line(pocketmq: Cluster, console: Console) -> None:
    topic = pocketmq.sync.create_topic("orders")
    assert console("topic", "update", topic).error == (
        "nothing to change: give --queues or --message-type"
    )
    unknown = console("topic", "update", pocketmq.topic_name("no"), "--queues", "2").error
    assert "create it with `pocketmq topic create`" in unknown
    assert "broker 'z'" in console("topic", "update", topic, "--queues", "2", "--broker", "z").error
    wrong = console("topic", "create", topic, "--message-type", "ORDERED")
    assert (wrong.status, len(wrong.err.splitlines())) == (2, 1)
    assert "'normal', 'fifo', 'delay', 'transaction', 'mixed', 'priority'" in wrong.err


def test_before_5_4_there_are_no_priorities(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_cluster(profile="5.3", brokers=2) as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.nameservers)
        refused = console("topic", "create", "orders", "--message-type", "PRIORITY").error
        assert "attribute message.type must be one of UNSPECIFIED, NORMAL, FIFO" in refused
        assert "but is PRIORITY" in refused
        console("topic", "create", "here", "--broker", "broker-b")
        error = console("topic", "update", "here", "--queues", "2", "--broker", BROKER).error
        assert error == "topic 'here' does not exist on broker-a; create it there"


# -- groups ------------------------------------------------------------------------------------


def test_a_group_is_created_changed_and_deleted(
    pocketmq: Cluster, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = pocketmq.group_name("payments")
    made = console("group", "create", group, "--fifo", "--retry-max-times", "3")
    assert made.out == f"group {group} on {BROKER}: in order, at most 3 retries\n"
    assert group_of(pocketmq, group) == SubscriptionGroupConfig(
        group_name=group,
        consume_message_orderly=True,
        retry_max_times=3,
        group_retry_policy=GroupRetryPolicy(),  # as RocketMQ 5 shows each group
    )
    said = console(
        "group", "update", group, "--no-consume-message-orderly", "--no-consume-enable",
        "--retry-queue-nums", "2", "--no-notify-consumer-ids-changed", "--broker-id", "1",
        "--no-consume-broadcast-enable", "--attributes", "+priority.factor=30",
    )  # fmt: skip
    assert said.out == (
        f"group {group} on {BROKER}: concurrently, at most 3 retries, may not consume, may not "
        "broadcast, priority.factor=30\n"
    )
    policy = '{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000]}}'
    told = console("group", "update", group, "--group-retry-policy", policy, "-o", "json").json
    kept = told["brokers"][BROKER]
    assert kept["groupRetryPolicy"]["customizedRetryPolicy"] == {"next": [1000, 5000]}
    assert (kept["retryMaxTimes"], kept["retryQueueNums"], kept["brokerId"]) == (3, 2, 1)
    assert kept["attributes"] == {"priority.factor": "30"}, "what is not said stays"

    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    left = console("group", "delete", group)
    assert f"Delete group {group}? [y/N]" in left.err
    assert group_of(pocketmq, group) is not None
    gone = console("group", "delete", group, "--yes")
    assert gone.out == f"group {group} is deleted on {BROKER}; its offsets stay\n"
    assert group_of(pocketmq, group) is None


def test_a_deleted_group_leaves_its_offsets_unless_told(
    pocketmq: Cluster, console: Console
) -> None:
    topic, group = pocketmq.sync.create_topic("orders", queues=1), pocketmq.group_name("billing")

    for words, stays in (((), True), (("--clean-offset",), False)):
        console("group", "create", group)
        console("group", "reset", group, topic, "--to", "end")
        assert console("group", "delete", group, "--yes", *words).status == 0
        assert has_offset(pocketmq, group, topic) is stays


def has_offset(cluster: Cluster, group: str, topic: str) -> bool:
    """Whether the broker has an offset of the group."""

    async def ask() -> bool:
        async with Admin(nameservers=cluster.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
            [queue] = await admin.subscribe_queues(topic)
            return await admin.consumer_offset(group, queue) is not None

    return asyncio.run(ask())


def test_a_wrong_change_of_a_group_is_one_line(pocketmq: Cluster, console: Console) -> None:
    group = pocketmq.group_name("nobody")
    for words in (("update", group, "--fifo"), ("delete", group), ("delete", group, "--yes")):
        assert console("group", *words).error == (
            f"no broker knows group {group!r}; see `pocketmq group list`"
        )
    assert console("group", "update", group).error.startswith("nothing to change: give an option")
    for words in (("create", "TOOLS_CONSUMER"), ("delete", "TOOLS_CONSUMER", "--yes")):
        assert (
            "is a system group of the cluster and cannot be changed"
            in console("group", *words).error
        )
    assert "a b" in console("group", "create", "a b").error
    for name, value, problem in (
        ("--attributes", "x=1", "write +key=value or -key with one of these keys: priority.factor"),
        ("--group-retry-policy", "{", "--group-retry-policy: '{'"),
        ("--group-retry-policy", '{"type": 7}', "--group-retry-policy: "),
    ):
        assert problem in console("group", "create", group, name, value).error
    assert group_of(pocketmq, group) is None


def test_a_group_is_changed_where_it_is(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    with start_cluster(brokers=2) as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.nameservers)
        console("group", "create", "billing", "--broker", "broker-b")
        said = console("group", "update", "billing", "--retry-max-times", "1").out
        assert said == "group billing on broker-b: concurrently, at most 1 retry\n"
        error = console("group", "update", "billing", "--fifo", "--broker", BROKER).error
        assert error == (
            "group 'billing' does not exist on broker-a; create it with `pocketmq group create`"
        )
        said = console("group", "create", "billing", "--fifo").out
        assert said.splitlines() == [
            "group billing on broker-a: in order, at most 16 retries",
            "group billing on broker-b: in order, at most 1 retry",
        ]


# -- fixtures ----------------------------------------------------------------------------------


def test_fixtures_create_topics_and_groups_as_the_console_does(pocketmq: Cluster) -> None:
    topic = pocketmq.sync.create_topic("payments", queues=1, message_type="FIFO")
    group = pocketmq.sync.create_group("payments", fifo=True, retry_max_times=2)
    assert topic_of(pocketmq, topic).attributes == {"message.type": "FIFO"}
    assert group_of(pocketmq, group) == SubscriptionGroupConfig(
        group_name=group,
        consume_message_orderly=True,
        retry_max_times=2,
        group_retry_policy=GroupRetryPolicy(),  # as RocketMQ 5 shows each group
    )
    with pytest.raises(Exception, match="there is no 'fifo'; write one of NORMAL, FIFO"):
        pocketmq.sync.create_topic("payments", message_type="fifo")  # type: ignore[arg-type]
