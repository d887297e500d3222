"""A real cluster with a proxy in front of it, for official SDKs, whose time is real."""

from __future__ import annotations

import ast
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from pocketmq.client import Admin
from pocketmq.cluster.local import local_cluster
from pocketmq.operation.tls.options import TlsOptions
from pocketmq.operation.tls.role_tls import RoleTls
from pocketmq.protocol.bodies.groups import CustomizedRetryPolicy, GroupRetryPolicy
from pocketmq.protocol.transport.tcp import TcpNetwork
from pocketmq.proxy.assembly.proxy import Proxy
from pocketmq.proxy.config import ProxyConfig
from pocketmq.runtime.clock import SystemClock
from support.eventually import PATIENCE_MS
from support.official_sdk import run_sdk

RETRIED_SOON: Final = GroupRetryPolicy(customized_retry_policy=CustomizedRetryPolicy(next=[1_000]))
"""Of a group whose failed messages come again after a second."""
ASKING_SOON: Final = (
    *("--transaction-time-out-ms", "1000", "--transaction-check-interval-ms", "1000"),
)
"""Options of a broker that asks soon for the end of a transaction that nobody has ended."""


@asynccontextmanager
async def sdk_world(*broker_arguments: str) -> AsyncIterator[tuple[str, Admin]]:
    """Where SDKs connect to, and who makes topics and groups."""
    async with local_cluster(broker_arguments=broker_arguments) as cluster:
        config = ProxyConfig(
            nameservers=tuple(cluster.namesrv_addr.split(";")), grpc_port=0, encoding="msgpack"
        )
        async with (
            Proxy(config, SystemClock(), TcpNetwork(), tls=RoleTls(TlsOptions()).server) as proxy,
            Admin(nameservers=cluster.namesrv_addr, api_timeout_ms=PATIENCE_MS) as admin,
        ):
            yield proxy.endpoints, admin


START: Final = """
import sys, threading, time
from rocketmq import (ClientConfiguration, ConsumeResult, Credentials, FilterExpression, Message,
                      MessageListener, Producer, PushConsumer, SimpleConsumer)
where = ClientConfiguration(sys.argv[1], Credentials(), request_timeout=60)

def send(topic, *bodies, group=None, tag=None, properties=()):
    producer = Producer(where, (topic,))
    producer.startup()
    for body in bodies:
        message = Message()
        message.topic, message.body = topic, body.encode()
        if group:
            message.message_group = group
        if tag:
            message.tag = tag
        for name, value in properties:
            message.add_property(name, value)
        producer.send(message)
    producer.shutdown()

def simple(group, topic, expression=FilterExpression()):
    consumer = SimpleConsumer(where, group, {topic: expression}, 5)
    consumer.startup()
    return consumer

def some(consumer, count, invisible=30):
    found = []
    while len(found) < count:
        found += consumer.receive(32, invisible) or []
    return found

class Listener(MessageListener):
    def __init__(self, count, succeeds=lambda message, attempt: True):
        self.seen, self.lock, self.succeeds = [], threading.Lock(), succeeds
        self.count, self.done = count, threading.Event()
    def consume(self, message):
        with self.lock:
            self.seen.append(message.body.decode())
            attempt = self.seen.count(message.body.decode())
            if len(self.seen) >= self.count:
                self.done.set()
        return (ConsumeResult.SUCCESS if self.succeeds(message, attempt) else ConsumeResult.FAILURE)

def push(group, topic, listener):
    consumer = PushConsumer(where, group, listener, {topic: FilterExpression()})
    consumer.startup()
    return consumer
"""
"""What every program of the Python SDK begins with."""

SIMPLE: Final = """
send("orders", "one", "two", tag="new", properties=[("color", "red")])
consumer = simple("billing", "orders")  # receives at once, before its settings were sent
messages = some(consumer, 2)
told = sorted((each.body.decode(), each.tag, each.properties["color"], each.delivery_attempt)
              for each in messages)
one, two = sorted(messages, key=lambda each: each.body)
consumer.ack(two)
before = one.receipt_handle
consumer.change_invisible_duration(one, 10)
assert one.receipt_handle != before
[again] = some(consumer, 1)
told.append((again.body.decode(), again.delivery_attempt))
consumer.ack(again)
try:
    consumer.ack(one)
    told.append("taken")
except Exception as exc:
    told.append(type(exc).__name__)
told.append(consumer.receive(32, 30))
consumer.shutdown()
print(told)
"""
"""A simple consumer does all that it can; its last message is hidden, comes again, and is done."""

SIMPLE_TOLD: Final = [
    ("one", "new", "red", 1),
    ("two", "new", "red", 1),
    ("one", 2),
    "BadRequestException",
    [],
]


CHOSEN: Final = """
from rocketmq.grpc_protocol import FilterType
send("orders", "one", tag="a", properties=[("number", "1")])
send("orders", "two", tag="b", properties=[("number", "2")])
found = []
for group, expression in (("by-tag", FilterExpression("a")),
                          ("by-sql", FilterExpression("number = 2", FilterType.SQL))):
    consumer = simple(group, "orders", expression)
    found += [each.body.decode() for each in some(consumer, 1)]
    consumer.shutdown()
print(found)
"""
"""Two consumers choose one message each."""

PRODUCED: Final = """
from rocketmq import TransactionChecker, TransactionResolution

asked = set()
class Checker(TransactionChecker):
    def check(self, message):
        body = message.body.decode()
        asked.add(body)
        return (TransactionResolution.ROLLBACK if body == "forgotten"
                else TransactionResolution.COMMIT)

def message(topic, body, due=None):
    made = Message()
    made.topic, made.body, made.delivery_timestamp = topic, body.encode(), due
    return made

def consumed(topic, count):
    consumer = simple("billing", topic)
    found = some(consumer, count)
    for each in found:
        consumer.ack(each)
    consumer.shutdown()
    return sorted(each.body.decode() for each in found)

producer = Producer(where, ("later", "deals"), Checker())
producer.startup()
due = int(time.time()) + 20
receipt = producer.send(message("later", "never", due))
producer.send(message("later", "due", due + 2))
producer.recall_message("later", receipt.recall_handle)
for body in ("rollback", "forgotten", "asked", "commit"):
    transaction = producer.begin_transaction()
    producer.send(message("deals", body), transaction)
    if body in ("rollback", "commit"):
        getattr(transaction, body)()
deals = consumed("deals", 2)
later = consumed("later", 1)
on_time = time.time() >= due + 2
producer.shutdown()
print([deals, sorted(asked), later, on_time])
"""
"""Of two delayed messages one is taken back; transactions end by their producer, or when asked."""

PRODUCED_TOLD: Final = [["asked", "commit"], ["asked", "forgotten"], ["due"], True]


async def printed(where: str, code: str) -> Any:
    """The value that an SDK's program prints at its end."""
    text = await asyncio.to_thread(run_sdk, START + code, where)
    return ast.literal_eval(text.strip().splitlines()[-1])
