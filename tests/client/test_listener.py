"""How listeners are called."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pocketmq.client.consumer.consuming.listener import ListenerCall
from pocketmq.client.listener_threads import InlineThreads, PooledThreads
from pocketmq.protocol.allocation.by_name import strategy_named
from pocketmq.protocol.messages.message import MessageExt
from pocketmq.runtime.errors import ConfigError
from support.messages import pulled_message
from support.own_logs import own_logs


async def called(listener: Any, *, one_by_one: bool = True) -> Any:
    call = ListenerCall(listener, one_by_one=one_by_one, threads=InlineThreads())
    return await call([pulled_message(offset=1), pulled_message(offset=2)], "context")


class AsyncObject:
    async def __call__(self, message: MessageExt) -> int:
        return message.queue_offset


async def test_functions_objects_and_coroutines_are_listeners() -> None:
    async def coroutine(message: MessageExt) -> int:
        await asyncio.get_running_loop().create_task(_nothing())
        return message.queue_offset

    assert await called(coroutine) == 1
    assert await called(lambda message: message.queue_offset) == 1
    assert await called(AsyncObject()) == 1
    assert await called(lambda messages, context: (len(messages), context), one_by_one=False) == (
        2,
        "context",
    )


async def _nothing() -> None:
    return None


async def test_what_a_listener_raises_reaches_the_caller() -> None:
    async def coroutine(_message: MessageExt) -> None:
        await asyncio.get_running_loop().create_task(_nothing())
        raise ValueError("from a coroutine")

    def plain(_message: MessageExt) -> None:
        raise ValueError("from a function")

    for listener in (coroutine, plain):
        with pytest.raises(ValueError, match="from a"):
            await called(listener)


async def test_a_cancelled_call_cancels_the_listener_which_may_clean_up() -> None:
    cleaned: list[str] = []
    began = asyncio.Event()

    async def listener(_message: MessageExt) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.get_running_loop().create_task(_nothing())
            cleaned.append("yes")

    task = asyncio.ensure_future(called(listener))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaned == ["yes"]


async def test_a_listener_that_blocks_the_loop_is_named_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    # No real time: a machine that stalls would make the second call the longer one.
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)

    async def sleepy(_message: MessageExt) -> None:
        nonlocal now
        await asyncio.get_running_loop().create_task(_nothing())
        now += 0.15

    call = ListenerCall(sleepy, one_by_one=True, threads=InlineThreads())
    with own_logs() as logs:
        await call([pulled_message()], None)
        await call([pulled_message()], None)
    blocked = [each for each in logs if each["event"] == "listener.blocked_loop"]
    assert len(blocked) == 1
    assert "sleepy" in blocked[0]["listener"]
    assert blocked[0]["blocked_s"] == 0.15
    assert call.calls == 2


async def test_a_listener_that_blocks_the_loop_at_once_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)

    async def sleepy(_message: MessageExt) -> None:
        nonlocal now
        now += 0.2

    call = ListenerCall(sleepy, one_by_one=True, threads=InlineThreads())
    with own_logs() as logs:
        assert await call([pulled_message()], None) is None
    assert [(each["event"], each["blocked_s"]) for each in logs] == [("listener.blocked_loop", 0.2)]


async def test_a_listener_that_waits_for_long_is_not_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000.0
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    events = [asyncio.Event() for _ in range(3)]

    async def patient(message: MessageExt) -> int:
        await events[message.queue_offset].wait()
        return message.queue_offset

    call = ListenerCall(patient, one_by_one=True, threads=InlineThreads())
    with own_logs() as logs:
        for number, event in enumerate(events):
            calling = asyncio.ensure_future(call([pulled_message(offset=number)], None))
            other = asyncio.ensure_future(call([pulled_message(offset=number)], None))
            for _ in range(3):  # real time stands still here
                await asyncio.get_running_loop().create_task(_nothing())
            now += 5.0
            event.set()
            assert await calling == await other == number
    assert logs == []


async def test_plain_listeners_run_in_named_threads() -> None:
    import threading

    threads = PooledThreads("consume-g", 2)
    try:
        name = await threads.run(lambda: threading.current_thread().name)
    finally:
        threads.close()
    assert name.startswith("consume-g")


class Own:
    """A strategy of ones own, for the name test."""

    name = "OWN"

    def allocate(self, *_arguments: object) -> None:
        return None


def test_strategies_by_name() -> None:
    assert strategy_named("averagely").name == strategy_named("AVG").name == "AVG"
    assert strategy_named("circle").name == "AVG_BY_CIRCLE"
    assert strategy_named("consistent-hash").name == "CONSISTENT_HASH"
    for bad in ("nonsense", "no.such:Thing", "os:path", "collections:OrderedDict"):
        with pytest.raises(ConfigError, match="strategy"):
            strategy_named(bad)
