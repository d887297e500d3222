"""What the broker does by the clock (B-27, B-31, B-36, B-71, B-94)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.periodic import PeriodicService

SCAN_S = 10.0
"""Clients are looked at this often, the first time after as long (B-27)."""

HOLD_CHECK_S = 5.0
SHORT_HOLD_CHECK_S = 1.0
"""Held pulls are looked at this often, with and without long polling (B-71)."""

BROADCAST_SCAN_S = 5.0
"""The smallest offsets of broadcasting groups are committed this often (B-36)."""

GROUP_CHECK_S = 180.0
"""Groups that are far behind and offsets that are stale are looked for this often (B-36, B-168)."""

FIRST_FLUSH_S = 10.0
"""Offset files are first written after this (B-31, B-94)."""


class BrokerServices:
    """The periodic shells; what they do is passed in.

    Those that wait for a change rest until they are told of one: an idle broker sleeps for seconds.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        scan_clients: Callable[[], None],
        check_held_pulls: Callable[[], float | None],
        save_offsets: Callable[[], Awaitable[float | None]],
        save_delay_offsets: Callable[[], Awaitable[float | None]],
        look_after_groups: Callable[[], None],
        commit_broadcast_offsets: Callable[[], float | None],
        long_polling: bool,
        offset_period_s: float,
        delay_offset_period_s: float,
    ) -> None:
        self._offsets = PeriodicService(
            "save consumer offsets",
            clock,
            offset_period_s,
            save_offsets,
            initial_delay_s=FIRST_FLUSH_S,
        )
        self._delay_offsets = PeriodicService(
            "save delay offsets",
            clock,
            delay_offset_period_s,
            save_delay_offsets,
            initial_delay_s=FIRST_FLUSH_S,
        )
        hold_check_s = HOLD_CHECK_S if long_polling else SHORT_HOLD_CHECK_S
        self._held_pulls = PeriodicService(
            "check held pulls", clock, hold_check_s, check_held_pulls
        )
        self._broadcasts = PeriodicService(
            "commit broadcast offsets", clock, BROADCAST_SCAN_S, commit_broadcast_offsets
        )
        self._others = [
            self._held_pulls,
            PeriodicService("scan clients", clock, SCAN_S, scan_clients),
            PeriodicService("look after groups", clock, GROUP_CHECK_S, look_after_groups),
        ]

    def start(self) -> None:
        """Begin all."""
        for service in (*self._others, self._broadcasts, self._offsets, self._delay_offsets):
            service.start()

    def offsets_changed(self) -> None:
        """There are consumer offsets to save."""
        self._offsets.resume()

    def delay_offsets_changed(self) -> None:
        """There is progress of delay levels to save."""
        self._delay_offsets.resume()

    def pull_held(self) -> None:
        """A pull waits."""
        self._held_pulls.resume()

    def broadcast_pulled(self) -> None:
        """There are offsets of broadcasting groups to commit."""
        self._broadcasts.resume()

    async def stop(self) -> None:
        """End all; offsets are saved one last time."""
        for service in self._others:
            await service.stop()
        await self._broadcasts.stop(final_run=True)  # what it commits is saved with the others
        await self._offsets.stop(final_run=True)
        await self._delay_offsets.stop(final_run=True)
