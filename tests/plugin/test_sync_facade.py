"""What tests without an event loop do: order, retries, transactions, broadcasts, clusters."""

from __future__ import annotations

import logging
import re
import shutil
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
import structlog

from pocketmq.client import Message, MessageExt, TransactionListener, TransactionState
from pocketmq.client.sync import PushConsumer, SimpleConsumer
from pocketmq.cluster.steering.shape import Mode
from pocketmq.runtime.errors import CallerError
from pocketmq.testing import (
    Cluster,
    NotReachedError,
    SyncCluster,
    SyncConsumer,
    WrongClusterError,
    role_logs,
    start_cluster,
)
from support.eventually import PATIENCE_S
from support.nested_pytest import run_pytest


@pytest.fixture
def logs_of_a_project() -> Iterator[None]:
    """structlog as in a project that has set up no logs, whatever tests before this one did."""
    before = structlog.get_config()
    structlog.reset_defaults()
    role_logs.set_up()
    yield
    structlog.configure(**before)


def test_a_listener_gets_a_key_in_order(pocketmq: Cluster) -> None:
    cluster = pocketmq.sync
    topic, bodies = cluster.create_topic("orders"), list[bytes]()
    group = cluster.group_name("billing")
    with (
        cluster.producer() as producer,
        cluster.consumer(
            group, topic, listener=lambda each: bodies.append(each.body), orderly=True
        ),
    ):
        for number in range(5):
            producer.send(Message(topic, b"%d" % number), key="order 17")
        cluster.group(group).consumed_all(limit_s=PATIENCE_S)
    assert bodies == [b"%d" % number for number in range(5)]
    with pytest.raises(CallerError, match="give listener= as well"):
        cluster.consumer(group, topic, orderly=True)


def test_what_fails_too_often_is_a_dead_letter(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic, tries = cluster.create_topic("orders"), list[int]()

    def fails(message: MessageExt) -> None:
        tries.append(message.reconsume_times)
        raise RuntimeError("no such customer")

    with (
        cluster.producer() as producer,
        cluster.consumer("billing", topic, listener=fails, max_reconsume_times=2),
    ):
        assert cluster.dead_letters("billing") == []
        producer.send(Message(topic, b"order 17"))
        cluster.advance_until(lambda: bool(cluster.dead_letters("billing")))
        assert [each.body for each in cluster.dead_letters("billing")] == [b"order 17"]
    assert tries == [0, 1, 2]


def test_a_received_message_comes_again_when_it_is_sent_back(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("orders")
    with cluster.producer() as producer, cluster.consumer("billing", topic) as billing:
        producer.send(Message(topic, b"order 17"))
        cluster.advance(1)
        assert billing.send_back(billing.receive(limit_s=PATIENCE_S))
        cluster.advance("11s")
        again = billing.receive(limit_s=PATIENCE_S)
        assert (again.body, again.reconsume_times, again.topic) == (b"order 17", 1, topic)


def test_a_transaction_is_asked_for_and_committed(pocketmq_clock: Cluster) -> None:
    class Booking:
        def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
            return TransactionState.UNKNOWN

        def check_local_transaction(self, message: MessageExt) -> TransactionState:
            return TransactionState.COMMIT

    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("seats")
    with (
        cluster.transaction_producer(Booking()) as producer,
        cluster.consumer("tickets", topic) as tickets,
    ):
        producer.send_in_transaction(Message(topic, b"seat 12"))
        cluster.advance(minutes=2)
        assert tickets.receive(limit_s=PATIENCE_S).body == b"seat 12"


def test_every_broadcast_consumer_gets_every_message(
    pocketmq: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    cluster = pocketmq.sync
    topic, group = cluster.create_topic("prices"), cluster.group_name("screens")
    with (
        cluster.consumer(group, topic, broadcast=True, instance_name="one") as one,
        cluster.consumer(group, topic, broadcast=True, instance_name="two") as two,
        cluster.producer() as producer,
    ):
        cluster.group(group).assigned(members=2, limit_s=PATIENCE_S)
        producer.send(Message(topic, b"1.23"))
        assert one.receive(limit_s=PATIENCE_S).body == b"1.23"
        assert two.receive(limit_s=PATIENCE_S).body == b"1.23"
    assert not list(tmp_path.iterdir()), "offsets lie with the cluster, and not at home"


def test_a_group_consumes_again_after_a_reset(pocketmq: Cluster) -> None:
    cluster = pocketmq.sync
    topic, group = cluster.create_topic("orders"), cluster.group_name("billing")
    with cluster.producer() as producer:
        producer.send(Message(topic, b"order 17"))
    with cluster.consumer(group, topic) as billing:
        billing.receive(limit_s=PATIENCE_S)
    cluster.group(group).reset(topic)
    with cluster.consumer(group, topic) as billing:
        assert billing.receive(limit_s=60).body == b"order 17"
    with cluster.admin() as admin:
        assert topic in admin.topics()


def test_time_moves_by_a_duration(pocketmq_clock: Cluster) -> None:
    before_ms = pocketmq_clock.time_ms
    pocketmq_clock.sync.advance("2h")
    assert pocketmq_clock.time_ms - before_ms == 7_200_000


@pytest.mark.parametrize("mode", ["in-process", "processes"])
def test_a_message_comes_when_time_has_moved_by_its_delay(mode: Mode) -> None:
    with start_cluster(clock="manual", mode=mode) as started:
        cluster = started.sync
        assert cluster.time_ms % 1000 == 0
        topic = cluster.create_topic("reminders", queues=1)
        with cluster.producer() as producer, cluster.consumer("mail", topic) as mail:
            producer.send(Message(topic, b"pay", delay_ms=90_000))
            cluster.advance(90)
            assert mail.receive(limit_s=PATIENCE_S).body == b"pay"


def test_a_wait_in_vain_says_what_is_delivered_later_and_when(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("reminders", queues=1)
    with cluster.producer() as producer, cluster.consumer("mail", topic) as mail:
        cluster.advance(1)
        producer.send(Message(topic, b"pay", delay_level=3))
        producer.send(Message(topic, b"pay now", delay_ms=90_000))
        cluster.advance(9)
        with pytest.raises(NotReachedError) as raised:
            mail.receive(limit_s=0.2)
    said = str(raised.value)
    assert f"waiting to be delivered: {topic}/0 in 1 s (delay level 3, offset 0)" in said
    assert f"{topic}/0 in 81 s (at its time)" in said
    assert "move it with advance" in said


def test_a_message_with_a_time_is_named_until_it_comes(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("reminders", queues=1)
    with cluster.producer() as producer, cluster.consumer("mail", topic) as mail:
        cluster.advance(1)
        producer.send(Message(topic, b"pay", delay_ms=2_300))
        for left_s in (3, 2, 1):
            said = what_is_missing(mail)
            assert f"waiting to be delivered: {topic}/0 in {left_s} s (at its time)" in said
            cluster.advance(1)
        assert mail.receive(limit_s=PATIENCE_S).body == b"pay"
        assert "waiting to be delivered" not in what_is_missing(mail)


def test_open_transactions_are_named_until_they_are_decided(pocketmq_clock: Cluster) -> None:
    class Booking:
        def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
            return TransactionState.COMMIT if argument == "paid" else TransactionState.UNKNOWN

        def check_local_transaction(self, message: MessageExt) -> TransactionState:
            return TransactionState.ROLLBACK

    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("seats", queues=1)
    with (
        cluster.transaction_producer(Booking()) as producer,
        cluster.consumer("tickets", topic) as tickets,
    ):
        cluster.advance(1)
        producer.send_in_transaction(Message(topic, b"seat 11"), "paid")
        assert tickets.receive(limit_s=PATIENCE_S).body == b"seat 11"
        assert "transactions" not in what_is_missing(tickets)
        producer.send_in_transaction(Message(topic, b"seat 12"))
        assert f"in open transactions: 1 message for {topic}, which" in what_is_missing(tickets)
        cluster.advance(minutes=2)
        assert "transactions" not in what_is_missing(tickets)


def test_popped_messages_are_named_without_the_brokers_own_topic(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("orders", queues=1)
    popping = SimpleConsumer("print", nameservers=cluster.nameservers)
    popping.subscribe(topic)
    with (
        popping,
        cluster.producer() as producer,
        cluster.consumer("billing", topic) as billing,
    ):
        cluster.advance(1)
        producer.send(Message(topic, b"order 17"))
        billing.receive(limit_s=PATIENCE_S)
        assert popping.receive(1, invisible_s=60)
        cluster.advance(5)
        said = what_is_missing(billing)
        assert re.search(
            r"popped messages in \d\d s \(unless they are acknowledged before\);", said
        )
        assert "REVIVE" not in said


def test_a_timer_is_named_by_what_it_brings(pocketmq_clock: Cluster) -> None:
    def fails(message: MessageExt) -> None:
        raise RuntimeError("no such customer")

    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("orders", queues=1)
    with (
        cluster.producer() as producer,
        cluster.consumer("billing", topic, listener=fails, orderly=True),
    ):
        cluster.advance(1)
        producer.send(Message(topic, b"order 17"))
        cluster.advance_until(lambda: "to its listener" in consumed(cluster), limit_s=60)
        named = (
            r"\(a client in the test hands messages to its listener again in [\d.]+ s\): move it"
        )
        assert re.search(named, consumed(cluster))


def test_a_wrong_keyword_is_refused_with_the_right_one(pocketmq: Cluster) -> None:
    cluster = pocketmq.sync
    consumer = cluster.consumer(cluster.group_name("g"), cluster.topic_name("t"))
    calls: list[tuple[Callable[..., object], str, str]] = [
        (consumer.receive, "timeout", "receive has no option timeout; did you mean limit_s?"),
        (cluster.advance, "second", "advance has no option second; did you mean seconds?"),
        (cluster.advance, "days", "advance has no option days; it has hours, minutes, seconds"),
        (pocketmq.advance, "hour", "advance has no option hour; did you mean hours?"),
        (cluster.group("g").assigned, "limit", "did you mean limit_s?"),
        (start_cluster, "broker", "start_cluster has no option broker; did you mean brokers?"),
    ]
    for call, slip, said in calls:
        with pytest.raises(TypeError, match=re.escape(said)):
            call(**{slip: 1})


def test_a_producer_of_transactions_says_what_its_listener_has(pocketmq: Cluster) -> None:
    said = (
        "listener is 'bookings', which has no method execute_local_transaction and no method "
        "check_local_transaction; pass an object with the methods"
    )
    with pytest.raises(CallerError, match=said):
        pocketmq.sync.transaction_producer(cast("TransactionListener", "bookings"))


def consumed(cluster: SyncCluster) -> str:
    """Why the group has not consumed all."""
    with pytest.raises(NotReachedError) as raised:
        cluster.group("billing").consumed_all(limit_s=0)
    return str(raised.value)


def what_is_missing(consumer: SyncConsumer) -> str:
    """What a wait in vain for a message says."""
    with pytest.raises(NotReachedError) as raised:
        consumer.receive(limit_s=0.1)
    return str(raised.value)


def test_a_condition_in_vain_says_it_too(pocketmq_clock: Cluster) -> None:
    cluster = pocketmq_clock.sync
    topic = cluster.create_topic("reminders")
    with cluster.producer() as producer:
        producer.send(Message(topic, b"pay", delay_level=4))
        with pytest.raises(NotReachedError, match=r"waiting to be delivered: reminders/\d in 2"):
            cluster.advance_until(lambda: False, limit_s=5)


@pytest.mark.usefixtures("logs_of_a_project")
@pytest.mark.parametrize("kind", [RuntimeError, TimeoutError])
def test_a_failing_listener_is_one_record_that_people_read(
    pocketmq: Cluster,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    kind: type[Exception],
) -> None:
    failed = threading.Event()

    def fails(message: MessageExt) -> None:
        failed.set()
        raise kind("no such customer")

    cluster = pocketmq.sync
    topic, group = cluster.create_topic("orders"), cluster.group_name("billing")
    with cluster.producer() as producer, cluster.consumer(group, topic, listener=fails):
        producer.send(Message(topic, b"order 17"))
        assert failed.wait(PATIENCE_S)
    (record,) = [each for each in caplog.records if each.name == "pocketmq"]
    assert record.levelno >= logging.WARNING
    assert "listener" in record.getMessage()
    assert group in record.getMessage()
    assert "no such customer" in caplog.text
    assert record.exc_info is not None
    assert traceback.extract_tb(record.exc_info[2])[-1].name == "fails"
    assert "{" not in capfd.readouterr().err


@pytest.mark.usefixtures("logs_of_a_project")
def test_a_consumer_that_began_too_late_is_told_to_wait_for_its_queues(
    pocketmq_cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = pocketmq_cluster.sync
    topic = cluster.create_topic("orders", queues=1)
    rule = cluster.faults.add("delay", code="GET_MAX_OFFSET", role="broker-a", delay_ms=1_000)
    consumer = PushConsumer("billing", nameservers=cluster.nameservers)
    consumer.subscribe(topic)
    consumer.listen(lambda message: None)
    with consumer, cluster.producer() as producer:
        while not cluster.faults.fired(rule):
            cluster.group("billing").state()
        producer.send(Message(topic, b"order 17"))
        cluster.group("billing").assigned(limit_s=PATIENCE_S)
    (record,) = [each for each in caplog.records if "missed" in each.getMessage()]
    assert "cluster.group(...).assigned()" in record.getMessage()
    assert f"{topic} broker-a/0" in record.getMessage()


FACTORY = """
def test_two_clusters_at_once(pocketmq_cluster_factory):
    one = pocketmq_cluster_factory(brokers=2)
    other = pocketmq_cluster_factory(clock="manual")
    assert one.roles == ["nameserver-1", "broker-a", "broker-b"]
    assert one.data != other.data
    other.sync.advance("1h")
    assert one.sync.create_topic("orders") == other.sync.create_topic("orders") == "orders"
"""

NOPROC = """
from pocketmq.client import Message
from pocketmq.testing import WrongClusterError
import pytest

def test_a_cluster_that_runs_is_used_and_left_alone(pocketmq_noproc):
    cluster = pocketmq_noproc.sync
    topic, group = cluster.create_topic("orders"), cluster.group_name("billing")
    assert topic != "orders"
    with cluster.producer() as producer, cluster.consumer(group, topic) as billing:
        producer.send(Message(topic, b"order 17"))
        assert billing.receive(limit_s=60).body == b"order 17"
        cluster.group(group).assigned(limit_s=60)
    with pytest.raises(WrongClusterError, match="pocketmq_cluster"):
        cluster.kill("broker-a")
"""


@pytest.mark.cluster
def test_a_factory_starts_clusters_and_ends_them_with_the_test(tmp_path: Path) -> None:
    (tmp_path / "test_factory.py").write_text(FACTORY)
    ran = run_pytest(tmp_path, "-W", "error")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.cluster
def test_a_cluster_that_runs_already_serves_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_noproc.py").write_text(NOPROC)
    with start_cluster() as cluster:
        options = ("-W", "error", "--pocketmq-noproc", cluster.nameservers)
        for _ in range(2):  # topics of the first session stay, and nobody minds
            ran = run_pytest(tmp_path, *options)
            assert ran.returncode == 0, ran.stdout + ran.stderr
        assert cluster.state("broker-a") == "running"
    ran = run_pytest(tmp_path, "--pocketmq-noproc", "127.0.0.1:9")
    assert "no name server: none of 127.0.0.1:9 answers" in ran.stdout


NOPROC_TLS = (
    NOPROC
    + """
def test_clients_trust_what_the_option_names(pocketmq_noproc):
    assert pocketmq_noproc.ca_file.name == "orders-ca.pem"
"""
)


@pytest.mark.cluster
def test_a_cluster_that_runs_already_is_reached_by_tls(tmp_path: Path) -> None:
    (tmp_path / "test_noproc.py").write_text(NOPROC_TLS)
    with start_cluster(tls=True) as cluster:
        shutil.copy(cluster.ca_file, tmp_path / "orders-ca.pem")
        at = ("-W", "error", "--pocketmq-noproc", cluster.nameservers)
        ran = run_pytest(tmp_path, *at, "--pocketmq-ca-file", "orders-ca.pem")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        ran = run_pytest(tmp_path, *at, "--pocketmq-tls", "true", "-k", "left_alone")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        ran = run_pytest(tmp_path, *at)
        assert "no name server: none of" in ran.stdout
    missing = tmp_path / "none.pem"
    ran = run_pytest(tmp_path, "--pocketmq-ca-file", str(missing))
    assert str(missing) in ran.stdout


def test_nobody_kills_a_role_of_a_cluster_that_is_not_the_tests_own(pocketmq: Cluster) -> None:
    with pytest.raises(WrongClusterError, match="a cluster of its own"):
        pocketmq.sync.kill("broker-a")
