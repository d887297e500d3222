"""Renewals while a broker hangs: those of the others go on (G-97)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pocketmq.proxy.consuming.renewing import AT_ONCE, STOP_PATIENCE_S, STOP_S, Renewing
from pocketmq.proxy.handles.held import Held
from pocketmq.proxy.handles.receipts import Receipt
from pocketmq.runtime.manual_time.manual_clock import ManualClock
from pocketmq.runtime.tasks import TaskOwner

START_MS = 1_700_000_000_000


class Brokers:
    """In place of the requests: brokers `hung` and `late` do not answer, the others do at once."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.asked: list[str] = []
        self.given_back: list[Receipt] = []
        self.answers = asyncio.Event()
        """Set: `late` answers."""

    async def change(self, receipt: Receipt, topic: str, group: str, invisible_ms: int) -> Receipt:
        self.asked.append(receipt.broker_name)
        if receipt.broker_name == "hung":
            with self._clock.peer_wait():
                await asyncio.Event().wait()
        if receipt.broker_name == "late":
            await self.answers.wait()
        return receipt.renewed(self._clock.time_ms(), invisible_ms, 0)

    async def give_back(self, receipt: Receipt, topic: str, group: str) -> None:
        self.asked.append(receipt.broker_name)
        self.given_back.append(receipt)


async def group_config(group: str) -> Any:
    raise AssertionError(group)


async def test_a_broker_that_hangs_keeps_no_other_from_being_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pocketmq.proxy.consuming.renewing.ROUND_S", 0.01)
    clock = ManualClock(START_MS)
    brokers = Brokers(clock)
    async with TaskOwner("renewals") as tasks:
        renewing = Renewing(clock, brokers, lambda *_: True, group_config, tasks)  # type: ignore[arg-type]
        for number in range(100):
            for name in ("hung", "well"):
                receipt = Receipt.parse(f"0 {START_MS} 60000 0 0 {name} 0 {number} 0")
                renewing.held.add(Held("c", "G", "T", f"{name} {number}", receipt, 0))
        renewing.start()
        await clock.move_to(START_MS + 300_000)
        assert brokers.asked.count("hung") == AT_ONCE
        # At 50 s for 60 s, at 100 s for 3 minutes, at 270 s for 5.
        assert brokers.asked.count("well") == 300
        monkeypatch.setattr("pocketmq.proxy.consuming.renewing.STOP_S", 0.01)
        await renewing.stop()
        assert brokers.asked.count("well") == 400  # given back; what hangs is not waited for


@pytest.mark.parametrize("answers_in_time", [True, False])
async def test_what_a_client_held_is_given_back_by_the_handle_of_a_renewal_under_way(
    monkeypatch: pytest.MonkeyPatch, answers_in_time: bool
) -> None:
    monkeypatch.setattr("pocketmq.proxy.consuming.renewing.ROUND_S", 0.01)
    if not answers_in_time:
        monkeypatch.setattr("pocketmq.proxy.consuming.renewing.PATIENCE_S", 0.01)
    clock = ManualClock(START_MS)
    brokers = Brokers(clock)
    first = Receipt.parse(f"0 {START_MS} 60000 0 0 late 0 0 0")
    async with TaskOwner("renewals") as tasks:
        renewing = Renewing(clock, brokers, lambda *_: True, group_config, tasks)  # type: ignore[arg-type]
        renewing.held.add(Held("c", "G", "T", "m", first, 0))
        renewing.start()
        await clock.move_to(START_MS + 55_000)
        assert brokers.asked == ["late"]
        leaving = asyncio.create_task(renewing.leave("c", "G"))
        if answers_in_time:
            for _ in range(10):
                await asyncio.sleep(0)  # noqa: TID251 - turns in which it would give back
            assert not brokers.given_back
            brokers.answers.set()
        await leaving
        [given] = brokers.given_back
        # Without an answer the older one is all there is.
        assert given.popped_ms == START_MS + (55_000 if answers_in_time else 0)
        brokers.answers.set()
        await renewing.stop()


async def test_at_a_stop_what_is_held_is_given_back_though_its_renewal_is_not_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pocketmq.proxy.consuming.renewing.ROUND_S", 0.01)
    monkeypatch.setattr("pocketmq.proxy.consuming.renewing.STOP_PATIENCE_S", 0.01)
    clock = ManualClock(START_MS)
    brokers = Brokers(clock)
    first = Receipt.parse(f"0 {START_MS} 60000 0 0 late 0 0 0")
    async with TaskOwner("renewals") as tasks:
        renewing = Renewing(clock, brokers, lambda *_: True, group_config, tasks)  # type: ignore[arg-type]
        renewing.held.add(Held("c", "G", "T", "m", first, 0))
        renewing.start()
        await clock.move_to(START_MS + 55_000)
        assert brokers.asked == ["late"]
        await renewing.stop()
        assert [each.popped_ms for each in brokers.given_back] == [START_MS]
    assert STOP_PATIENCE_S < STOP_S
