"""Owned tasks: named, never lost, first failure told."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.runtime.tasks import TaskOwner
from support.own_logs import own_logs


async def test_the_first_failure_is_told_once_and_kept() -> None:
    told: list[str] = []
    owner = TaskOwner("broker", on_failure=lambda name, error: told.append(f"{name}: {error}"))

    async def fail(text: str) -> None:
        raise ValueError(text)

    with own_logs() as logs:
        tasks = [owner.start(fail(text), name=text) for text in ("one", "two")]
        await asyncio.wait(tasks)
    assert told == ["broker.one: one"]
    assert str(owner.failure) == "one"
    assert [line["task"] for line in logs] == ["broker.one", "broker.two"]
    assert len(owner) == 0


async def test_stop_cancels_what_runs_and_waits_for_its_end() -> None:
    ended: list[str] = []

    async def run() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(lambda: None)
            ended.append("ended")

    async with TaskOwner("client") as owner:
        owner.start(run(), name="pull")
        await asyncio.to_thread(lambda: None)
    assert ended == ["ended"]
    assert owner.failure is None


async def test_a_stopping_owner_starts_nothing_more() -> None:
    owner = TaskOwner("client")
    await owner.stop()
    with pytest.raises(RuntimeError, match="client is stopping"):
        owner.start(asyncio.Event().wait(), name="late")


async def test_a_task_may_stop_its_owner() -> None:
    owner = TaskOwner("client")
    task = owner.start(owner.stop(), name="stopper")
    await task
    assert not task.cancelled()
