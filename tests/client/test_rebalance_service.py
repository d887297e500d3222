"""When a client's consumers look at their queues again."""

from __future__ import annotations

import pytest

from pocketmq.client.rebalance.service import RebalanceService
from pocketmq.runtime.manual_time.manual_clock import ManualClock


class Runs:
    """Counts rebalances and says whether they end balanced."""

    def __init__(self, *, min_interval_ms: int | None) -> None:
        self.clock = ManualClock(0)
        self.at: list[float] = []
        self.balanced = True
        self.takes_s = 0.0
        self.service = RebalanceService(
            self.clock,
            interval_ms=20_000,
            min_interval_ms=min_interval_ms,
            rebalance_all=self._run,
        )

    async def _run(self) -> bool:
        self.at.append(self.clock.monotonic())
        if self.takes_s:
            await self.clock.sleep(self.takes_s)
        return self.balanced

    async def until(self, second: float) -> None:
        await self.clock.move_to(round(second * 1000))


@pytest.mark.parametrize("min_interval_ms", [None, 1_000])
async def test_every_20_s(min_interval_ms: int | None) -> None:  # C-20
    runs = Runs(min_interval_ms=min_interval_ms)
    runs.service.start()
    await runs.until(61)
    assert runs.at == [20, 40, 60]
    await runs.service.stop()


async def test_in_4_9_each_wake_up_runs_at_once() -> None:  # C-21
    runs = Runs(min_interval_ms=None)
    runs.service.start()
    for second in (1.0, 1.2, 1.4):
        await runs.until(second)
        runs.service.wakeup()
    await runs.until(10)
    assert runs.at == [1.0, 1.2, 1.4]
    await runs.service.stop()


async def test_in_5_x_runs_are_a_second_apart() -> None:  # C-20
    runs = Runs(min_interval_ms=1_000)
    runs.service.start()
    for second in (1.0, 1.2, 1.4):
        await runs.until(second)
        runs.service.wakeup()
    await runs.until(10)
    assert runs.at == [1.0, 2.0]
    await runs.service.stop()


async def test_in_5_x_an_unbalanced_run_is_followed_by_another_after_a_second() -> None:  # C-20
    runs = Runs(min_interval_ms=1_000)
    runs.balanced = False
    runs.service.start()
    runs.service.wakeup()
    await runs.until(3.5)
    assert runs.at == [0, 1, 2, 3]
    runs.balanced = True
    await runs.until(30)
    assert runs.at == [0, 1, 2, 3, 4, 24]
    await runs.service.stop()


async def test_in_4_9_an_unbalanced_run_waits_for_the_period() -> None:  # C-20
    runs = Runs(min_interval_ms=None)
    runs.balanced = False
    runs.service.start()
    runs.service.wakeup()
    await runs.until(21)
    assert runs.at == [0, 20]
    await runs.service.stop()


async def test_a_later_wake_up_comes_later() -> None:  # C-25.3
    runs = Runs(min_interval_ms=None)
    runs.service.start()
    runs.service.wakeup_later(500)
    await runs.until(1)
    assert runs.at == [0.5]
    await runs.service.stop()


async def test_in_5_x_the_second_between_runs_begins_when_one_has_ended() -> None:  # C-20
    runs = Runs(min_interval_ms=1_000)
    runs.takes_s = 3.0
    runs.service.start()
    runs.service.wakeup()
    await runs.until(2)
    runs.service.wakeup()
    await runs.until(8)
    assert runs.at == [0.0, 4.0]
    await runs.service.stop()
