"""Spans of sends, receives and listeners, and the context that goes along with a message."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from pocketmq.client import (
    Admin,
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    SimpleConsumer,
    sync,
)
from pocketmq.client.otel import SCHEMA_URL, instrument, processing
from pocketmq.protocol.errors import ClientError, IllegalMessageError
from pocketmq.runtime.errors import CallerError
from pocketmq.testing import Cluster
from support.console import until
from support.eventually import PATIENCE_MS, PATIENCE_S

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

FIRST = ConsumeFromWhere.FIRST_OFFSET


class Traced:
    """A provider, and the spans that ended."""

    def __init__(self) -> None:
        self.provider = TracerProvider()
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def spans(self, begin: str) -> list[ReadableSpan]:
        return [each for each in self._exporter.get_finished_spans() if each.name.startswith(begin)]


@pytest.fixture
def traced() -> Traced:
    return Traced()


async def test_a_message_carries_the_trace_of_its_send_to_its_listener(
    pocketmq: Cluster, traced: Traced
) -> None:
    topic, done = await pocketmq.create_topic("orders"), asyncio.Event()
    current: list[int] = []

    async def on_message(message: MessageExt) -> ConsumeConcurrentlyStatus:
        from opentelemetry import trace

        current.append(trace.get_current_span().get_span_context().span_id)
        done.set()
        return ConsumeConcurrentlyStatus.RECONSUME_LATER

    group = pocketmq.group_name("billing")
    consumer = instrument(
        PushConsumer(group, nameservers=pocketmq.nameservers, consume_from_where=FIRST),
        traced.provider,
    )
    consumer.subscribe(topic)
    consumer.listen(on_message)  # after `instrument`, and traced all the same
    producer = instrument(Producer("shop", nameservers=pocketmq.nameservers), traced.provider)
    async with producer, consumer:
        message = Message(topic, b"order 17", tags="new", keys=["17", "ann"], delay_level=1)
        sent = await producer.send(message)
        assert message.properties["traceparent"]
        async with asyncio.timeout(PATIENCE_S):
            await done.wait()
    [send] = traced.spans("send ")
    [process] = traced.spans("process ")
    assert (send.name, send.kind) == (f"send {topic}", SpanKind.PRODUCER)
    assert (process.name, process.kind) == (f"process {topic}", SpanKind.CONSUMER)
    assert process.parent is not None
    assert send.context is not None
    assert process.context is not None
    assert process.parent.span_id == send.context.span_id
    assert process.context.trace_id == send.context.trace_id
    assert current == [process.context.span_id], "what a listener does is below its span"
    assert send.instrumentation_scope is not None
    assert send.instrumentation_scope.schema_url == SCHEMA_URL
    told = dict(send.attributes or {})
    assert told == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.message.body.size": 8,
        "messaging.rocketmq.message.tag": "new",
        "messaging.rocketmq.message.keys": ("17", "ann"),
        "messaging.rocketmq.message.delay_time_level": 1,
        "messaging.rocketmq.message.type": "delay",
        "messaging.client.id": producer_id(told),
        "messaging.message.id": sent.msg_id,
        "messaging.destination.partition.id": f"{sent.queue.broker_name}/{sent.queue.queue_id}",
    }
    found = dict(process.attributes or {})
    assert found["messaging.message.id"] == sent.msg_id
    assert found["messaging.consumer.group.name"] == group
    assert found["messaging.rocketmq.consumption_model"] == "clustering"
    assert process.status.status_code is StatusCode.ERROR
    assert process.status.description == "RECONSUME_LATER"


def producer_id(told: dict[str, Any]) -> str:
    return str(told["messaging.client.id"])


def test_a_synchronous_listener_is_traced_and_its_error_recorded(
    pocketmq: Cluster, traced: Traced
) -> None:
    topic, failed = pocketmq.sync.create_topic("orders"), threading.Event()

    def on_message(message: MessageExt) -> None:
        failed.set()
        raise LookupError("no such customer")

    consumer = sync.PushConsumer(
        pocketmq.group_name("billing"), nameservers=pocketmq.nameservers, consume_from_where=FIRST
    )
    consumer.subscribe(topic)
    consumer.listen(on_message)
    instrument(consumer, traced.provider)
    producer = instrument(sync.Producer("shop", nameservers=pocketmq.nameservers), traced.provider)
    tracer = traced.provider.get_tracer("test")
    with producer, consumer:
        with tracer.start_as_current_span("place order") as outer:
            producer.send_batch([Message(topic, b"1"), Message(topic, b"2")])
        assert failed.wait(PATIENCE_S)
    [send] = traced.spans("send ")
    assert send.parent is not None
    assert send.parent.span_id == outer.get_span_context().span_id, "of the calling thread"
    assert (send.attributes or {})["messaging.batch.message_count"] == 2
    # `stop` waits for no listener, whose span ends after it has raised.
    process = until(lambda: traced.spans("process "), "a listener has ended")[0]
    assert (process.attributes or {})["error.type"] == "LookupError"
    assert process.status.status_code is StatusCode.ERROR


async def test_received_messages_are_linked_and_their_work_is_a_span(
    pocketmq: Cluster, traced: Traced
) -> None:
    topic = await pocketmq.create_topic("orders")
    async with instrument(
        Producer("shop", nameservers=pocketmq.nameservers), traced.provider
    ) as producer:
        await producer.send(Message(topic, b"order 17"), key="17")
    consumer = SimpleConsumer(
        pocketmq.group_name("print"), nameservers=pocketmq.nameservers, consume_from_where=FIRST
    )
    consumer.subscribe(topic)
    async with instrument(consumer, traced.provider):
        [message] = await consumer.receive(wait_s=PATIENCE_S)
        with processing(message, consumer.group, traced.provider):
            await consumer.ack(message)
        await consumer.receive(wait_s=0)
    [send], [receive], [process] = (traced.spans(each) for each in ("send", "receive", "process"))
    assert (send.attributes or {})["messaging.rocketmq.message.type"] == "fifo"
    assert send.context is not None
    assert process.parent is not None
    assert [link.context.span_id for link in receive.links] == [send.context.span_id]
    assert process.parent.span_id == send.context.span_id


async def test_a_send_that_fails_says_with_what(pocketmq: Cluster, traced: Traced) -> None:
    topic = await pocketmq.create_topic("orders")
    async with instrument(
        Producer("shop", nameservers=pocketmq.nameservers), traced.provider
    ) as producer:
        with pytest.raises(IllegalMessageError):
            await producer.send(Message(topic, b""))
    [send] = traced.spans("send ")
    assert (send.attributes or {})["error.type"] == "IllegalMessageError"
    assert send.status.status_code is StatusCode.ERROR


async def test_what_cannot_be_traced_is_refused(pocketmq: Cluster) -> None:
    with pytest.raises(CallerError, match="a Admin cannot be traced; pass a producer"):
        instrument(Admin(nameservers=pocketmq.nameservers, api_timeout_ms=PATIENCE_MS))
    consumer = PushConsumer(pocketmq.group_name("late"), nameservers=pocketmq.nameservers)
    async with consumer:
        with pytest.raises(ClientError, match="is already running"):
            instrument(consumer)
