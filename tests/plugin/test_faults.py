"""Fault rules at the network and the disk of real roles."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pocketmq.client import Message, Producer, PushConsumer
from pocketmq.operation.faults.rule import Deed, WrongFaultError
from pocketmq.protocol.errors import RequestTimeoutError
from pocketmq.protocol.transport.remoting import RemotingClient
from pocketmq.runtime.errors import PocketMQError
from pocketmq.testing import Cluster, WrongClusterError, start_cluster
from pocketmq.testing.cluster import Faults
from pocketmq.testing.sync_clients import SyncProducer
from support.eventually import PATIENCE_MS, PATIENCE_S, eventually


@pytest.fixture(
    scope="module", params=["in-process", pytest.param("processes", marks=pytest.mark.cluster)]
)
def running(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with start_cluster(brokers=2, mode=request.param) as cluster:
        cluster.sync.create_topic("orders", queues=1)
        yield cluster


@pytest.fixture
def faults(running: Cluster) -> Iterator[Faults]:
    running.faults.clear()
    yield running.faults
    running.faults.clear()


@pytest.fixture
def producer(running: Cluster) -> Iterator[SyncProducer]:
    with running.sync.producer(retry_times_when_send_failed=0) as made:
        yield made


def stored(cluster: Cluster, topic: str = "orders") -> int:
    """Messages of a topic."""

    async def ask() -> int:
        async with cluster.control.admin() as admin:
            return sum(each.max_offset for each in (await admin.topic_stats(topic)).values())

    return cluster.thread.result(ask())


def send(producer: SyncProducer, text: bytes = b"x") -> None:
    producer.send(Message("orders", text))


def test_a_send_is_failed_with_a_code_once(faults: Faults, producer: SyncProducer) -> None:
    before = stored(faults.cluster)
    rule = faults.add(
        "fail", code="SEND_MESSAGE", with_code="SYSTEM_ERROR", topic="orders", role="broker-a"
    )
    other = faults.add("fail", code="SEND_MESSAGE", role="broker-b", remark="of broker-b")
    for _ in range(2):
        with pytest.raises(PocketMQError, match=r"a fault rule says so|of broker-b"):
            send(producer)
    assert (faults.fired(rule), faults.fired(other), faults.fired()) == (1, 1, 2)
    firing = faults.firings()[-1]
    assert (firing.do, firing.code, firing.topic) == ("fail", 310, "orders")
    faults.clear(rule)
    faults.clear(other)
    send(producer)
    assert stored(faults.cluster) == before + 1


@pytest.mark.parametrize("do", ["fail", "partition"])
def test_a_rule_that_a_role_does_not_take_holds_nowhere(
    running: Cluster, faults: Faults, monkeypatch: pytest.MonkeyPatch, do: Deed
) -> None:
    control = running.control.faults
    tell, asked = control._tell, list[str]()
    before = faults.add("delay", code="QUERY_MESSAGE", delay_ms=1)

    async def tell_all_but_one(remoting: RemotingClient, name: str) -> None:
        asked.append(name)
        if name == "broker-b":
            raise RequestTimeoutError(name, "SET_FAULTS", 1)
        await tell(remoting, name)

    async def held_by(name: str) -> list[str]:
        async with control._remoting() as remoting:
            return list((await control._report(remoting, name, after=0)).counts)

    others = {"other": "nameserver-1"} if do == "partition" else {"code": "SEND_MESSAGE"}
    with monkeypatch.context() as patch:
        patch.setattr(control, "_tell", tell_all_but_one)
        with pytest.raises(RequestTimeoutError):
            faults.add(do, role="broker-a", **others)  # type: ignore[arg-type]
    assert {"broker-a", "broker-b"} <= set(asked)
    assert faults.rules == [before]
    # The rule that was there holds on.
    assert running.thread.result(held_by("broker-a")) == [before.id]
    assert running.thread.result(held_by("broker-b")) == [before.id]


def test_a_lost_answer_leaves_the_message_stored(faults: Faults, producer: SyncProducer) -> None:
    before = stored(faults.cluster)
    faults.add("drop", code="SEND_MESSAGE", times=1)
    with pytest.raises(PocketMQError):
        send(producer)
    assert stored(faults.cluster) == before + 1


def test_a_duplicated_send_is_stored_twice(faults: Faults, producer: SyncProducer) -> None:
    before = stored(faults.cluster)
    faults.add("duplicate", code="SEND_MESSAGE", topic="orders", times=1)
    send(producer)
    assert stored(faults.cluster) == before + 2


def test_a_reset_ends_the_connection_and_the_next_send_works(
    faults: Faults, producer: SyncProducer
) -> None:
    before = stored(faults.cluster)
    faults.add("reset", code="SEND_MESSAGE", role="broker-a", times=1)
    faults.add("reset", code="SEND_MESSAGE", role="broker-b", times=1)
    for _ in range(2):
        with pytest.raises(PocketMQError):
            send(producer)
    send(producer)
    assert stored(faults.cluster) == before + 1


def test_a_delayed_request_is_done_later(faults: Faults, producer: SyncProducer) -> None:
    rule = faults.add("delay", code="SEND_MESSAGE", delay_ms=50)
    send(producer)
    assert faults.fired(rule) == 1


def test_a_full_disk_refuses_and_recovers(pocketmq_clock: Cluster, pocketmq_faults: Faults) -> None:
    cluster = pocketmq_clock.sync
    cluster.create_topic("orders")
    with cluster.producer(retry_times_when_send_failed=0) as producer:
        send(producer)
        pocketmq_faults.add("disk-full", role="broker-a")
        cluster.advance(71)  # the store looks at its space every 10 s, after the first minute
        with pytest.raises(PocketMQError, match="the disk is full"):
            send(producer)
        pocketmq_faults.clear()
        cluster.advance(11)
        send(producer)


def test_a_slow_sync_is_waited_for_and_told(faults: Faults, producer: SyncProducer) -> None:
    rule = faults.add("slow-fsync", delay_ms=20)
    send(producer)
    limit_at = faults.cluster.time_ms + PATIENCE_S * 1000
    while not faults.fired(rule):  # the flush comes every 500 ms
        assert faults.cluster.time_ms < limit_at
    assert (faults.firings()[-1].path or "").startswith("/")


async def test_a_lost_notification_leaves_the_rebalance_to_its_timer(faults: Faults) -> None:
    cluster = faults.cluster
    rule = faults.add("lose", code="NOTIFY_CONSUMER_IDS_CHANGED")

    def consumer() -> PushConsumer:
        made = PushConsumer("billing", nameservers=cluster.nameservers)
        made.subscribe("orders")
        made.listen(lambda _message: None)
        return made

    async with consumer():
        await cluster.group("billing").assigned(limit_s=PATIENCE_S)
        async with consumer():
            await eventually(
                lambda: asyncio.to_thread(faults.fired, rule), "a notification was lost"
            )


async def test_a_partition_holds_back_and_heals(faults: Faults) -> None:
    cluster = faults.cluster
    rule = faults.add("partition", role="broker-a", other="clients")
    faults.partition("broker-b", "clients")
    async with Producer(
        "p", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
    ) as producer:
        sending = asyncio.ensure_future(producer.send(Message("orders", b"held")))
        done, _ = await asyncio.wait([sending], timeout=0.3)
        assert not done
        faults.clear()
        assert (await sending).queue.topic == "orders"
    assert rule.id not in {each.id for each in faults.rules}


def test_a_rule_that_is_not_there_cannot_be_cleared(faults: Faults) -> None:
    with pytest.raises(WrongClusterError, match=r"no fault rule 'r99'; there are no rules$"):
        faults.clear("r99")
    rule = faults.add("drop", code="SEND_MESSAGE")
    with pytest.raises(WrongClusterError, match=f"no fault rule 'r99'; the rules are {rule.id}$"):
        faults.clear("r99")


def test_a_wrong_rule_is_refused(faults: Faults, pocketmq: Cluster) -> None:
    with pytest.raises(WrongClusterError, match="its roles are nameserver-1"):
        faults.add("drop", role="broker-z")
    with pytest.raises(
        WrongFaultError, match="there is no fault named 'burn'; choose from fail, delay"
    ):
        faults.add("burn")  # type: ignore[arg-type]
    with pytest.raises(WrongFaultError, match="unknown field `nht`"):
        faults.add("drop", nht=1)  # type: ignore[call-arg]
    with pytest.raises(WrongClusterError, match="there is no fault rule 'r999'"):
        faults.clear("r999")
    with pytest.raises(WrongClusterError, match="pocketmq_faults"):
        pocketmq.faults.add("drop")


def test_roles_that_were_parted_forget_each_other(
    pocketmq_clock: Cluster, pocketmq_faults: Faults
) -> None:
    cluster = pocketmq_clock
    assert pocketmq_faults.cluster is cluster
    pocketmq_faults.partition("broker-a", "nameserver-1")
    cluster.sync.advance(126)  # N-2: silent for 120 s, and one scan

    def brokers() -> set[str]:
        async def ask() -> set[str]:
            async with cluster.control.admin() as admin:
                return set(await admin.brokers())

        return cluster.thread.result(ask())

    assert brokers() == set()
    pocketmq_faults.clear()
    cluster.sync.advance_until(lambda: brokers() == {"broker-a"}, limit_s=120)


def test_rules_hold_for_a_role_that_is_started_again(pocketmq_faults: Faults) -> None:
    cluster = pocketmq_faults.cluster
    cluster.sync.create_topic("orders")
    rule = pocketmq_faults.add("fail", code="SEND_MESSAGE", with_code="SYSTEM_ERROR")
    cluster.sync.kill("broker-a")
    cluster.sync.restart("broker-a")
    with (
        cluster.sync.producer(retry_times_when_send_failed=0) as producer,
        pytest.raises(PocketMQError, match="a fault rule says so"),
    ):
        send(producer)
    assert pocketmq_faults.fired(rule) == 1
