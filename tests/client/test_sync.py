"""`pocketmq.client.sync`: the clients without an event loop, made of the asynchronous ones."""

from __future__ import annotations

import inspect
import subprocess
import sys
import threading
from typing import Any

import pytest

from pocketmq import client
from pocketmq.client import ConsumeFromWhere, sync
from pocketmq.client.blocking import DERIVED, public_names, shared_thread
from pocketmq.client.sync import (
    Admin,
    LitePullConsumer,
    Message,
    MessageExt,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    SimpleConsumer,
    TransactionProducer,
    TransactionState,
)
from pocketmq.protocol.errors import ClientError
from pocketmq.runtime.errors import CallerError
from pocketmq.testing import Cluster, start_cluster
from support.eventually import PATIENCE_MS, PATIENCE_S


class Heard:
    """Bodies that a listener got, in order; wakes who waits for a number of them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.threads: set[str] = set()
        self._more = threading.Condition()

    def __call__(self, message: MessageExt) -> None:
        with self._more:
            self.bodies.append(message.body)
            self.threads.add(threading.current_thread().name)
            self._more.notify_all()

    def wait_for(self, count: int) -> list[bytes]:
        with self._more:
            assert self._more.wait_for(lambda: len(self.bodies) >= count, PATIENCE_S)
            return list(self.bodies)


def from_the_first(group: str, topic: str, cluster: Cluster, **options: Any) -> PushConsumer:
    options.setdefault("consume_from_where", ConsumeFromWhere.FIRST_OFFSET)
    consumer = PushConsumer(group, nameservers=cluster.nameservers, **options)
    consumer.subscribe(topic)
    return consumer


@pytest.fixture
def topic(pocketmq: Cluster) -> str:
    return pocketmq.sync.create_topic("orders")


@pytest.fixture
def group(pocketmq: Cluster) -> str:
    return pocketmq.group_name("billing")


# -- derived ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DERIVED)
def test_each_class_has_the_names_of_its_asynchronous_one_and_nothing_to_await(name: str) -> None:
    made, source = getattr(sync, name), getattr(client, name)
    assert made.__name__ == name
    assert public_names(source)
    for each in [*public_names(source), "__enter__", "__exit__"]:
        assert not inspect.iscoroutinefunction(inspect.getattr_static(made, each)), each
    assert "__aenter__" not in dir(made)


def test_all_other_names_are_the_same_objects() -> None:
    for name in sync.__dict__["__all__"]:
        if name not in DERIVED:
            assert getattr(sync, name) is getattr(client, name)
    with pytest.raises(AttributeError, match="Nobody"):
        getattr(sync, "Nobody")  # noqa: B009


def test_a_wrong_option_is_refused_where_the_client_is_made() -> None:
    with pytest.raises(TypeError, match="did you mean send_timeout_ms"):
        Producer("shop", send_timeout=3)  # type: ignore[call-arg]


# -- each client --------------------------------------------------------------------------------


def test_what_is_sent_reaches_a_listener_in_a_thread_that_may_send(
    pocketmq: Cluster, topic: str, group: str
) -> None:
    heard, answers = Heard(), pocketmq.sync.create_topic("answers")
    with Producer("shop", nameservers=pocketmq.nameservers) as producer:

        def on_message(message: MessageExt) -> None:
            producer.send(Message(answers, message.body))
            heard(message)

        consumer = from_the_first(group, topic, pocketmq)
        consumer.listen(on_message)
        with consumer:
            producer.send(Message(topic, b"one"))
            producer.send_batch([Message(topic, b"two"), Message(topic, b"three")])
            producer.send_oneway(Message(topic, b"four"))
            assert sorted(heard.wait_for(4)) == [b"four", b"one", b"three", b"two"]
        assert not consumer.is_running
    assert "pocketmq clients" not in heard.threads


def test_messages_come_in_a_plain_for(pocketmq: Cluster, topic: str, group: str) -> None:
    with Producer("shop", nameservers=pocketmq.nameservers) as producer:
        producer.send_many(Message(topic, str(number).encode()) for number in range(5))
    with from_the_first(group, topic, pocketmq) as consumer:
        assert len({message.body for message in consumer.take(3)}) == 3
        messages = iter(consumer)
        next(messages)
        next(messages)
        messages.done()
        pocketmq.sync.group(group).consumed_all(limit_s=PATIENCE_S)


def test_an_orderly_listener_gets_a_key_in_order(pocketmq: Cluster, topic: str, group: str) -> None:
    heard = Heard()
    consumer = from_the_first(group, topic, pocketmq)
    consumer.listen(heard, orderly=True)
    with Producer("shop", nameservers=pocketmq.nameservers) as producer, consumer:
        for number in range(10):
            producer.send(Message(topic, str(number).encode()), key="order 17")
        assert heard.wait_for(10) == [str(number).encode() for number in range(10)]


def test_a_transaction_is_seen_when_it_is_committed(
    pocketmq: Cluster, topic: str, group: str
) -> None:
    class Booking:
        def execute_local_transaction(self, message: Message, argument: object) -> TransactionState:
            return TransactionState.COMMIT if argument else TransactionState.ROLLBACK

        def check_local_transaction(self, message: MessageExt) -> TransactionState:
            return TransactionState.ROLLBACK

    with TransactionProducer("seats", Booking(), nameservers=pocketmq.nameservers) as producer:
        assert producer.send_in_transaction(Message(topic, b"no"), False).error is None
        producer.send_in_transaction(Message(topic, b"yes"), True)
    with from_the_first(group, topic, pocketmq) as consumer:
        assert [message.body for message in consumer.take(1)] == [b"yes"]


def test_a_request_is_answered_by_a_listener(pocketmq: Cluster, topic: str, group: str) -> None:
    with Producer("shop", nameservers=pocketmq.nameservers) as producer:
        consumer = from_the_first(group, topic, pocketmq)
        consumer.listen(lambda asked: producer.send_reply(asked, b"pong") and None)
        with consumer:
            reply = producer.request(Message(topic, b"ping"), timeout_ms=int(PATIENCE_S * 1000))
    assert reply.body == b"pong"


def test_the_consumers_that_drive_themselves(pocketmq: Cluster, topic: str, group: str) -> None:
    with Producer("shop", nameservers=pocketmq.nameservers) as producer:
        producer.send(Message(topic, b"order 17"))
    lite = LitePullConsumer(
        group, nameservers=pocketmq.nameservers, consume_from_where=ConsumeFromWhere.FIRST_OFFSET
    )
    lite.subscribe(topic)
    with lite:
        assert [each.body for each in lite.poll(int(PATIENCE_S * 1000))] == [b"order 17"]
        lite.commit(persist=True)
    simple = SimpleConsumer(
        f"{group}-popping",
        nameservers=pocketmq.nameservers,
        consume_from_where=ConsumeFromWhere.FIRST_OFFSET,
    )
    simple.subscribe(topic)
    with simple:
        (message,) = simple.receive(wait_s=PATIENCE_S)
        simple.ack(message)
    with PullConsumer(f"{group}-by-hand", nameservers=pocketmq.nameservers) as pull:
        found = [pull.pull(queue, "*", 0) for queue in pull.queues(topic)]
    assert [each.status for each in found].count(PullStatus.FOUND) == 1


def test_topics_and_groups_are_looked_at(pocketmq: Cluster, topic: str) -> None:
    with Admin(nameservers=pocketmq.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
        assert topic in admin.topics()
        assert len(admin.topic_stats(topic)) == 4


# -- the thread ---------------------------------------------------------------------------------


def test_all_clients_of_a_process_share_one_thread(pocketmq: Cluster) -> None:
    with (
        Admin(nameservers=pocketmq.nameservers, api_timeout_ms=PATIENCE_MS) as one,
        Producer("shop", nameservers=pocketmq.nameservers) as other,
    ):
        assert one.loop_thread is other.loop_thread is shared_thread()


def test_many_threads_may_send(pocketmq: Cluster, topic: str) -> None:
    failed: list[BaseException] = []

    def send() -> None:
        try:
            for _ in range(20):
                producer.send(Message(topic, b"x"))
        except BaseException as exc:  # noqa: BLE001 - told below
            failed.append(exc)

    with Producer("shop", nameservers=pocketmq.nameservers) as producer:
        threads = [threading.Thread(target=send) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert not failed
    with Admin(nameservers=pocketmq.nameservers, api_timeout_ms=PATIENCE_MS) as admin:
        stats = admin.topic_stats(topic)
    assert sum(each.max_offset for each in stats.values()) == 160


def test_a_call_that_would_wait_for_itself_is_refused(
    pocketmq: Cluster, topic: str, group: str
) -> None:
    refused = threading.Event()
    with Producer("shop", nameservers=pocketmq.nameservers) as producer:

        async def on_message(message: MessageExt) -> None:
            with pytest.raises(CallerError, match="would wait for itself"):
                producer.send(Message(topic, b"again"))
            refused.set()

        consumer = from_the_first(group, topic, pocketmq)
        consumer.listen(on_message)
        with consumer:
            producer.send(Message(topic, b"one"))
            assert refused.wait(PATIENCE_S)


def test_a_client_that_does_not_run_says_so() -> None:
    with pytest.raises(ClientError, match="not running"):
        Producer("shop", nameservers="127.0.0.1:9").send(Message("orders", b"x"))


def test_time_moves_for_them_too(pocketmq_clock: Cluster) -> None:
    topic, heard = pocketmq_clock.sync.create_topic("reminders"), Heard()
    consumer = from_the_first("mail", topic, pocketmq_clock)
    consumer.listen(heard)
    with Producer("shop", nameservers=pocketmq_clock.nameservers) as producer, consumer:
        producer.send(Message(topic, b"pay", delay_level=16))
        pocketmq_clock.sync.advance(minutes=31)
        assert heard.wait_for(1) == [b"pay"]


SCRIPT = """
import os, sys
from pocketmq.client.blocking import shared_thread
from pocketmq.client.sync import Message, Producer
from pocketmq.runtime.errors import CallerError
producer = Producer("shop", nameservers=sys.argv[1])
producer.start()
producer.send(Message(sys.argv[2], b"from a script"))
first = shared_thread()
if os.fork() == 0:
    assert shared_thread() is not first
    try:
        producer.send(Message(sys.argv[2], b"by a client of the parent"))
    except CallerError:
        pass
    else:
        os._exit(1)
    with Producer("shop", nameservers=sys.argv[1]) as own:
        own.send(Message(sys.argv[2], b"from its child"))
    os._exit(0)
assert os.wait()[1] == 0
print("sent")  # and nobody stops the producer
"""


def test_a_script_ends_by_itself_and_a_forked_child_has_a_thread_of_its_own() -> None:
    with start_cluster() as cluster:
        topic = cluster.sync.create_topic("orders")
        command = [sys.executable, "-W", "ignore", "-c", SCRIPT, cluster.nameservers, topic]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=4 * PATIENCE_S
        )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["sent"]), done.stderr
