"""OpenTelemetry: spans of what clients send, receive and process. Needs `pocketmq[otel]`.

    from pocketmq.client.otel import instrument, processing

    producer = instrument(Producer("shop", nameservers="127.0.0.1:9876"))
    consumer = instrument(PushConsumer("billing", nameservers="127.0.0.1:9876"))

Names and attributes are those of the conventions for messaging systems and RocketMQ, version
1.37.0, which are still in development. Only the API is used: without an SDK nothing happens.

    send orders        PRODUCER   a send, a batch or a one-way send; all its tries together
    receive orders     CLIENT     a `receive` or `poll` that brought messages, with links to them
    process orders     CONSUMER   a call of the listener; its parent is the span that sent

The context goes along as properties of the message (`traceparent`), as OpenTelemetry's Java agent
writes and reads them, so a trace goes on from a Java producer to a Python consumer, or back.
What `messaging.message.id` says is what `pocketmq explain message` takes.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, Final, TypeVar

from pocketmq.client.blocking import BlockingClient
from pocketmq.client.consumer.consuming.listener import (
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyStatus,
)
from pocketmq.client.consumer.pull.lite_pull import LitePullConsumer
from pocketmq.client.consumer.pull.simple import SimpleConsumer
from pocketmq.client.consumer.push.push import PushConsumer
from pocketmq.client.consumer.push.push_parts import Listening
from pocketmq.client.producer.producer import Producer
from pocketmq.protocol.errors import ClientError
from pocketmq.protocol.messages import properties as names
from pocketmq.protocol.messages.message import Message, MessageExt
from pocketmq.runtime.errors import CallerError, MissingToolError

with contextlib.suppress(ModuleNotFoundError):  # `_tracer` says so to who traces
    from opentelemetry import propagate, trace
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.37.0"
"""Of the conventions that the spans follow."""

T = TypeVar("T")

_AGAIN: Final = (
    ConsumeConcurrentlyStatus.RECONSUME_LATER,
    ConsumeOrderlyStatus.ROLLBACK,
    ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT,
)


def instrument(client: T, tracer_provider: Any = None) -> T:
    """Have a client make spans, from now on.

    Args:
        client: A producer, or a push, simple or lite pull consumer, synchronous or not.
        tracer_provider: By default OpenTelemetry's global one.

    Returns:
        The same client.

    Raises:
        CallerError: A client of this kind has no spans, or a push consumer runs already.
        MissingToolError: OpenTelemetry's API is not installed.
    """
    inner: Any = client.asynchronous if isinstance(client, BlockingClient) else client
    tracer = _tracer(tracer_provider)
    if isinstance(inner, Producer):
        _trace_sends(inner, tracer)
    elif isinstance(inner, PushConsumer):
        _trace_listener(inner, tracer)
    elif isinstance(inner, SimpleConsumer):
        _trace_takes(inner, "receive", tracer)
    elif isinstance(inner, LitePullConsumer):
        _trace_takes(inner, "poll", tracer)
    else:
        raise CallerError(
            f"a {type(client).__name__} cannot be traced; pass a producer, or a push, simple or "
            "lite pull consumer"
        )
    return client


@contextlib.contextmanager
def processing(message: MessageExt, group: str = "", tracer_provider: Any = None) -> Iterator[Span]:
    """A span around the work on one message, for code that takes messages by itself.

    Its parent is the span that sent the message. What the block raises is recorded.

    Args:
        message: As it was received.
        group: Of the consumer.
        tracer_provider: By default OpenTelemetry's global one.
    """
    tracer = _tracer(tracer_provider)
    with _process_span(tracer, [message], group, {}) as span:
        yield span


def _tracer(provider: Any) -> Any:
    if "trace" not in globals():
        advice = "install it with `pip install 'pocketmq[otel]'`"
        raise MissingToolError("opentelemetry-api", "tracing", advice)
    return trace.get_tracer("pocketmq", tracer_provider=provider, schema_url=SCHEMA_URL)


# -- sending ------------------------------------------------------------------------------------


def _trace_sends(producer: Producer, tracer: Any) -> None:
    def traced(send: Callable[..., Any], *, many: bool = False) -> Callable[..., Any]:
        named = "messages" if many else "message"

        @functools.wraps(send)
        async def call(*arguments: Any, **options: Any) -> Any:
            given, *rest = arguments or (options.pop(named),)
            messages: list[Message] = list(given) if many else [given]
            if not messages:
                return await send(messages, *rest, **options)  # which says what is wrong
            attributes = {
                **_operation("send", "send"),
                **_of_messages(messages),
                "messaging.rocketmq.message.type": _type_of(messages[0], options.get("key")),
            }
            with contextlib.suppress(ClientError):  # not started, which the send says itself
                attributes["messaging.client.id"] = producer.client_id
            with tracer.start_as_current_span(
                f"send {messages[0].topic}", kind=SpanKind.PRODUCER, attributes=attributes
            ) as span:
                for each in messages:
                    propagate.inject(each.properties)
                with _error_type(span):
                    result = await send(messages if many else given, *rest, **options)
                if result is not None:
                    span.set_attribute("messaging.message.id", result.msg_id)
                    span.set_attribute(
                        "messaging.destination.partition.id",
                        f"{result.queue.broker_name}/{result.queue.queue_id}",
                    )
                return result

        return call

    setattr(producer, "send", traced(producer.send))  # noqa: B010 - of this one object
    setattr(producer, "send_oneway", traced(producer.send_oneway))  # noqa: B010
    setattr(producer, "send_batch", traced(producer.send_batch, many=True))  # noqa: B010


def _type_of(message: Message, key: object) -> str:
    properties = message.properties
    if names.TRANSACTION_PREPARED in properties:
        return "transaction"
    if properties.keys() & {names.DELAY, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS}:
        return "delay"
    return "normal" if key is None else "fifo"


# -- receiving and processing -------------------------------------------------------------------


def _trace_listener(consumer: PushConsumer, tracer: Any) -> None:
    extra = {"messaging.rocketmq.consumption_model": consumer.message_model.value.lower()}

    def traced(listener: Callable[..., Any], *, one_by_one: bool) -> Callable[..., Any]:
        def span_of(given: Any) -> contextlib.AbstractContextManager[Span]:
            messages = [given] if one_by_one else list(given)
            return _process_span(tracer, messages, consumer.group, extra)

        if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
            getattr(listener, "__call__", None)  # noqa: B004 - an object with an async __call__
        ):

            async def call(given: Any, *context: Any) -> Any:
                with span_of(given) as span:
                    return _judged(span, await listener(given, *context))

            return functools.update_wrapper(call, listener)

        def call_plain(given: Any, *context: Any) -> Any:
            with span_of(given) as span:
                return _judged(span, listener(given, *context))

        return functools.update_wrapper(call_plain, listener)

    def traced_listening(listening: Listening) -> Listening:
        if listening.listener is None:
            return listening
        wrapped = traced(listening.listener, one_by_one=listening.one_by_one)
        return replace(listening, listener=wrapped)

    consumer.change_listening(traced_listening)


def _judged(span: Span, answer: T) -> T:
    """Note that a listener wants a message once more."""
    if isinstance(answer, Enum) and answer in _AGAIN:
        span.set_status(Status(StatusCode.ERROR, answer.name))
    return answer


def _trace_takes(consumer: SimpleConsumer | LitePullConsumer, name: str, tracer: Any) -> None:
    take = getattr(consumer, name)

    @functools.wraps(take)
    async def call(*arguments: Any, **options: Any) -> list[MessageExt]:
        messages: list[MessageExt] = await take(*arguments, **options)
        if messages:  # an empty answer would be a span every few seconds
            attributes = {
                **_operation("receive", "receive"),
                **_of_messages(messages),
                "messaging.consumer.group.name": consumer.group,
            }
            span = tracer.start_span(
                f"receive {messages[0].topic}",
                kind=SpanKind.CLIENT,
                attributes=attributes,
                links=_links(messages),
            )
            span.end()
        return messages

    setattr(consumer, name, call)


@contextlib.contextmanager
def _process_span(
    tracer: Any, messages: Sequence[MessageExt], group: str, extra: dict[str, Any]
) -> Iterator[Span]:
    attributes = {**_operation("process", "process"), **_of_messages(messages), **extra}
    if group:
        attributes["messaging.consumer.group.name"] = group
    one = len(messages) == 1
    with (
        tracer.start_as_current_span(
            f"process {messages[0].topic}",
            kind=SpanKind.CONSUMER,
            context=propagate.extract(messages[0].properties) if one else None,
            links=() if one else _links(messages),
            attributes=attributes,
        ) as span,
        _error_type(span),
    ):
        yield span


def _links(messages: Sequence[MessageExt]) -> list[Link]:
    found = (
        trace.get_current_span(propagate.extract(each.properties)).get_span_context()
        for each in messages
    )
    return [Link(each) for each in found if each.is_valid]


# -- attributes ---------------------------------------------------------------------------------


def _operation(name: str, kind: str) -> dict[str, Any]:
    return {
        "messaging.system": "rocketmq",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
    }


def _of_messages(messages: Sequence[Message | MessageExt]) -> dict[str, Any]:
    first = messages[0]
    found: dict[str, Any] = {"messaging.destination.name": first.topic}
    if len(messages) > 1:
        found["messaging.batch.message_count"] = len(messages)
        return found
    found["messaging.message.body.size"] = len(first.body)
    if isinstance(first, MessageExt):
        found["messaging.message.id"] = first.msg_id
        found["messaging.destination.partition.id"] = f"{first.broker_name}/{first.queue_id}"
    if tag := first.properties.get(names.TAGS):
        found["messaging.rocketmq.message.tag"] = tag
    if keys := first.properties.get(names.KEYS):
        found["messaging.rocketmq.message.keys"] = keys.split()
    if level := first.properties.get(names.DELAY):
        found["messaging.rocketmq.message.delay_time_level"] = int(level)
    return found


@contextlib.contextmanager
def _error_type(span: Span) -> Iterator[None]:
    try:
        yield
    except Exception as exc:
        span.set_attribute("error.type", type(exc).__name__)
        raise
