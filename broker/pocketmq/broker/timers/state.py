"""What the timers share: what waits, and where it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.files import TimerFiles
from pocketmq.broker.timers.log import TimerLog
from pocketmq.broker.timers.rules import TimerRules
from pocketmq.broker.timers.wheel import TimerWheel


@dataclass(frozen=True, slots=True)
class TimerState:
    """The timers of one store."""

    rules: TimerRules
    """What time means."""
    wheel: TimerWheel
    """What waits."""
    log: TimerLog
    """Where it is logged."""
    files: TimerFiles
    """Keep both."""
    counts: TimerCounts
    """By topic."""
