"""The plugin's fixtures, used as its users use them."""

from __future__ import annotations

import asyncio
import threading
import warnings
from pathlib import Path
from typing import Any, cast

import pytest

from pocketmq.client import Admin, Message, Producer, PushConsumer
from pocketmq.cluster.errors import WrongStateError
from pocketmq.cluster.steering.cluster_control import ClusterControl
from pocketmq.cluster.steering.errors import TooFarError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.errors import CallerError, PocketMQError
from pocketmq.runtime.loop_thread import LoopThread
from pocketmq.testing import (
    Cluster,
    NotReachedError,
    RealTimeClientWarning,
    WrongClusterError,
    start_cluster,
)
from support.eventually import PATIENCE_MS, PATIENCE_S


def test_a_synchronous_test_sends_and_receives(pocketmq: Cluster) -> None:
    topic = pocketmq.sync.create_topic("orders")
    group = pocketmq.group_name("billing")
    with pocketmq.sync.producer() as producer, pocketmq.sync.consumer(group, topic) as consumer:
        sent = producer.send(Message(topic, b"hello", tags="new"))
        received = consumer.receive(limit_s=PATIENCE_S)
        assert (received.body, received.tags) == (b"hello", "new")
        assert received.queue_offset == sent.queue_offset
    with pocketmq.sync.consumer(group, topic) as consumer:  # the block's end made it done
        pocketmq.sync.group(group).consumed_all(limit_s=PATIENCE_S)


async def test_calls_can_be_awaited_in_any_loop(pocketmq: Cluster) -> None:
    topic = await pocketmq.create_topic("orders")
    bodies: list[bytes] = []
    consumer = PushConsumer(pocketmq.group_name("billing"), nameservers=pocketmq.nameservers)
    consumer.subscribe(topic)
    consumer.listen(lambda message: bodies.append(message.body))
    async with (
        consumer,
        Producer("shop", nameservers=pocketmq.nameservers, send_timeout_ms=PATIENCE_MS) as producer,
    ):
        await pocketmq.group(consumer.group).assigned(members=1, limit_s=PATIENCE_S)
        await producer.send(Message(topic, b"1"))
        await pocketmq.group(consumer.group).consumed_all(limit_s=PATIENCE_S)
    assert bodies == [b"1"]


def test_threads_share_a_producer(pocketmq: Cluster) -> None:
    topic = pocketmq.sync.create_topic("orders")
    group = pocketmq.group_name("billing")
    with pocketmq.sync.producer() as producer, pocketmq.sync.consumer(group, topic) as consumer:

        def serve(number: int) -> None:
            for at in range(5):
                producer.send(Message(topic, b"%d-%d" % (number, at)))

        threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        got = {consumer.receive(limit_s=PATIENCE_S).body for _ in range(20)}
    assert got == {b"%d-%d" % (number, at) for number in range(4) for at in range(5)}


def test_the_shared_cluster_is_neither_moved_nor_broken(pocketmq: Cluster) -> None:
    with pytest.raises(WrongClusterError, match="pocketmq_clock"):
        pocketmq.sync.advance(1)
    with pytest.raises(WrongClusterError, match="pocketmq_cluster"):
        pocketmq.sync.kill("broker-a")


async def test_time_moves_for_roles_and_clients_together(
    pocketmq: Cluster, pocketmq_clock: Cluster
) -> None:
    assert pocketmq is pocketmq_clock
    topic = await pocketmq.create_topic("orders")
    bodies: list[bytes] = []
    consumer = PushConsumer("billing", nameservers=pocketmq.nameservers)
    consumer.subscribe(topic)
    consumer.listen(lambda message: bodies.append(message.body))
    async with (
        consumer,
        Producer("shop", nameservers=pocketmq.nameservers, send_timeout_ms=PATIENCE_MS) as producer,
    ):
        await pocketmq.group("billing").assigned(limit_s=PATIENCE_S)
        await producer.send(Message(topic, b"later", delay_level=4))
        took_s = await pocketmq.advance_until(lambda: bool(bodies))
        assert 30 <= took_s < 31  # delay level 4
        await pocketmq.advance(minutes=10)  # heartbeats went on: nobody has expired
        await pocketmq.group("billing").assigned(members=1, limit_s=PATIENCE_S)


def test_a_condition_that_never_holds_ends_at_the_limit(pocketmq_clock: Cluster) -> None:
    def never() -> bool:
        return False

    with pytest.raises(NotReachedError, match="waited 60 s in vain for never"):
        pocketmq_clock.sync.advance_until(never, limit_s=60)


@pytest.mark.parametrize("seconds", [-1, 1e9, float("inf"), float("nan")])
def test_time_goes_neither_back_nor_on_for_ever(pocketmq_clock: Cluster, seconds: float) -> None:
    before_ms = pocketmq_clock.time_ms
    with pytest.raises(TooFarError, match="a clock moves forward, and at most 2678400 s"):
        pocketmq_clock.sync.advance(seconds)
    assert pocketmq_clock.time_ms == before_ms


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            {"seconds": "2 weeks"},
            "'2 weeks' is not a duration; write a duration like 126, 126s, 500ms, 5m or 2h",
        ),
        ({"hours": "two"}, "hours is 'two', which is not a number; write a number"),
        ({"minutes": None}, "minutes is None, which is not a number; write a number"),
    ],
)
def test_time_is_moved_by_numbers_only(
    pocketmq_clock: Cluster, arguments: dict[str, Any], said: str
) -> None:
    with pytest.raises(CallerError, match=said):
        pocketmq_clock.sync.advance(**arguments)
    with pytest.raises(CallerError, match="limit_s is '1m', which is not a number; write the"):
        pocketmq_clock.sync.advance_until(lambda: True, limit_s=cast("float", "1m"))


def test_a_wait_beside_a_clock_that_stands_says_so(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("orders")
    with cluster.producer() as producer, cluster.consumer("billing", topic) as consumer:
        cluster.group("billing").assigned(limit_s=PATIENCE_S)
        producer.send(Message(topic, b"later", delay_level=3))
        stood = "clock is manual and stood still meanwhile: move it with advance"
        with pytest.raises(NotReachedError, match=stood):
            consumer.receive(limit_s=0)
        with pytest.raises(NotReachedError, match="1 of 2 members connected; .*" + stood):
            cluster.group("billing").assigned(members=2, limit_s=0)
        cluster.advance(10)
        assert consumer.receive(limit_s=PATIENCE_S).body == b"later"


async def never_true() -> bool:
    return False


def test_a_coroutine_is_no_condition_of_a_blocking_wait(pocketmq_clock: Cluster) -> None:
    with pytest.raises(
        CallerError, match="never_true is a coroutine function; pass a plain function"
    ):
        pocketmq_clock.sync.advance_until(never_true)  # type: ignore[arg-type]


def test_a_wait_ends_at_its_limit_beside_a_frozen_broker(pocketmq_cluster: Cluster) -> None:
    cluster = pocketmq_cluster.sync
    cluster.freeze("broker-a")
    with pytest.raises(NotReachedError, match="its queues: nobody answered; broker-a is frozen"):
        cluster.group("billing").assigned(limit_s=0.1)


async def test_a_call_that_would_block_the_clients_of_the_test_is_refused(
    pocketmq_clock: Cluster,
) -> None:
    cluster = pocketmq_clock
    topic = await cluster.create_topic("orders")
    cluster.sync.advance(1)  # nobody runs in this loop
    async with Producer(
        "shop", nameservers=cluster.nameservers, send_timeout_ms=PATIENCE_MS
    ) as producer:
        await producer.send(Message(topic, b"x"))
        for call in (
            lambda: cluster.sync.advance(1),
            lambda: cluster.sync.advance_until(lambda: True),
            lambda: cluster.sync.group("billing").assigned(),
            lambda: cluster.sync.group("billing").consumed_all(),
        ):
            with pytest.raises(CallerError, match=r"write `await cluster\..*`, without sync"):
                call()


def test_time_of_a_cluster_on_real_time_cannot_be_moved(pocketmq_cluster: Cluster) -> None:
    with pytest.raises(WrongClusterError, match="pocketmq_clock"):
        pocketmq_cluster.sync.advance(1)


async def test_a_client_on_real_time_is_named_once(pocketmq_clock: Cluster) -> None:
    topic = await pocketmq_clock.create_topic("orders")
    consumer = PushConsumer("billing", nameservers=pocketmq_clock.nameservers, clock=SystemClock())
    consumer.subscribe(topic)
    consumer.listen(lambda message: None)
    async with consumer:
        await pocketmq_clock.group("billing").assigned(limit_s=PATIENCE_S)
        with pytest.warns(RealTimeClientWarning, match=consumer.client_id):
            await pocketmq_clock.advance(1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await pocketmq_clock.advance(1)


def test_a_killed_broker_keeps_what_it_acknowledged(pocketmq_cluster: Cluster) -> None:
    cluster = pocketmq_cluster.sync
    topic = cluster.create_topic("orders")
    with cluster.producer(retry_times_when_send_failed=0) as producer:
        for number in range(20):
            producer.send(Message(topic, b"%d" % number))
        cluster.kill("broker-a")
        assert pocketmq_cluster.state("broker-a") == "ended"
        with pytest.raises(PocketMQError):
            producer.send(Message(topic, b"refused"))
        cluster.restart("broker-a")
    with cluster.consumer("billing", topic) as consumer:
        got = {int(consumer.receive(limit_s=PATIENCE_S).body) for _ in range(20)}
    assert got == set(range(20))


async def known_brokers(cluster: Cluster) -> list[str]:
    async with Admin(
        nameservers=cluster.nameservers, clock=SystemClock(), api_timeout_ms=PATIENCE_MS
    ) as admin:
        return list(await admin.brokers())


def test_a_frozen_broker_expires_and_comes_back(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("orders")
    cluster.freeze("broker-a")
    cluster.advance(126)  # N-21: 120 s, and the next scan
    assert asyncio.run(known_brokers(pocketmq_clock)) == []
    cluster.thaw("broker-a")
    cluster.advance(31)  # it registers every 30 s
    assert asyncio.run(known_brokers(pocketmq_clock)) == ["broker-a"]
    with cluster.producer() as producer:
        producer.send(Message(topic, b"back"))


def test_a_frozen_role_can_be_killed(pocketmq_cluster: Cluster) -> None:
    cluster = pocketmq_cluster.sync
    cluster.freeze("broker-a")
    cluster.kill("broker-a")
    cluster.restart("broker-a")
    cluster.create_topic("orders")


def test_an_unknown_role_is_answered_with_those_that_exist(pocketmq_cluster: Cluster) -> None:
    with pytest.raises(WrongClusterError, match="nameserver-1, broker-a"):
        pocketmq_cluster.sync.freeze("broker-z")


def test_two_clusters_stand_side_by_side() -> None:
    with start_cluster() as one, start_cluster(brokers=2, nameservers=2) as two:
        one.sync.create_topic("orders")
        two.sync.create_topic("orders")
        assert one.nameservers != two.nameservers
        assert two.roles == ["nameserver-1", "nameserver-2", "broker-a", "broker-b"]
        with two.sync.producer() as producer:
            brokers = {producer.send(Message("orders", b"x")).queue.broker_name for _ in range(8)}
        assert brokers == {"broker-a", "broker-b"}


def test_a_call_without_sync_is_answered_with_what_to_write(pocketmq: Cluster) -> None:
    with pytest.raises(
        AttributeError, match=r"no producer; outside of a coroutine, write cluster\.sync\.prod"
    ):
        pocketmq.producer()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="'Cluster' object has no attribute 'colour'"):
        pocketmq.colour  # type: ignore[attr-defined]  # noqa: B018
    assert not hasattr(pocketmq, "colour")
    topic: Any = pocketmq.create_topic("orders")
    with (
        pocketmq.sync.producer() as producer,
        pytest.raises(CallerError, match="must be a text; await the call of create_topic that"),
    ):
        producer.send(Message(topic, b"x"))


@pytest.mark.parametrize("name", ["nameservers", "clock"])
def test_an_error_inside_a_property_of_the_cluster_is_seen(name: str) -> None:
    broken = Cluster(cast("ClusterControl", None), cast("LoopThread", None))
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute"):
        getattr(broken, name)


@pytest.mark.parametrize(
    ("queues", "said"),
    [
        (0, "queues: 0 is too few; write 1 or more"),
        (2000, "queues: 2000 are too many; write 1 to 1024"),
        ("4", "queues: '4' is no whole number; write 1 to 1024"),
    ],
)
def test_a_topic_has_a_queue_at_least_and_not_too_many(
    pocketmq: Cluster, queues: int, said: str
) -> None:
    with pytest.raises(CallerError, match=said):
        pocketmq.sync.create_topic("orders", queues=queues)


def test_a_wait_on_a_topic_that_nobody_made_names_it(pocketmq: Cluster) -> None:
    with (
        pocketmq.sync.consumer(pocketmq.group_name("billing"), "orders-of-nobody") as consumer,
        pytest.raises(NotReachedError, match=r"no queue of orders-of-nobody; create_topic returns"),
    ):
        consumer.receive(limit_s=0.1)


def test_an_option_with_a_wrong_name_is_answered_with_a_like_one(pocketmq: Cluster) -> None:
    with pytest.raises(TypeError, match="no option retry_times; did you mean retry_times_when_se"):
        pocketmq.sync.producer(retry_times=5)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"mode": "process"}, "mode: 'process' is none; write in-process or processes"),
        ({"clock": "fake"}, "clock: 'fake' is none; write real or manual"),
        ({"nameservers": 0}, "nameservers: 0 is too few; write 1 or more"),
        ({"brokers": -1}, "brokers: -1 is too few; write 0 or more"),
        ({"profile": "6"}, "'6'"),
        ({"data": Path("/dev/null")}, "/dev/null: File exists; choose another folder"),
    ],
)
def test_a_wrong_argument_is_named_and_starts_nothing(wrong: dict[str, Any], error: str) -> None:
    before = set(threading.enumerate())
    with pytest.raises(PocketMQError) as caught, start_cluster(**wrong):
        pytest.fail("it has started")
    assert error in str(caught.value)
    assert set(threading.enumerate()) == before


def test_no_thread_is_left_behind() -> None:
    before = set(threading.enumerate())
    with start_cluster() as cluster:
        cluster.sync.create_topic("orders")
        cluster.sync.kill("broker-a")
    left = {each.name for each in set(threading.enumerate()) - before if each.is_alive()}
    assert not {name for name in left if name.startswith("pocketmq")}


def test_a_loop_of_the_users_own_may_ask(pocketmq: Cluster) -> None:
    assert asyncio.run(pocketmq.create_topic("orders")).endswith("orders")


@pytest.mark.cluster
def test_processes_obey_the_same_calls(tmp_path_factory: pytest.TempPathFactory) -> None:
    data = tmp_path_factory.mktemp("processes")
    with start_cluster(mode="processes", clock="manual", data=data) as cluster:
        sync = cluster.sync
        topic = sync.create_topic("orders")
        with sync.producer() as producer, sync.consumer("billing", topic) as consumer:
            producer.send(Message(topic, b"later", delay_level=3))
            sync.advance(10)
            assert consumer.receive(limit_s=PATIENCE_S).body == b"later"
        with pytest.raises(WrongStateError, match="is running and cannot start; end it first"):
            sync.restart("broker-a")
        sync.kill("broker-a")
        assert cluster.state("broker-a") == "ended"
        with pytest.raises(WrongStateError, match=r"^broker-a has ended already$"):
            sync.kill("broker-a")
        sync.restart("broker-a")
        assert cluster.state("broker-a") == "running"
