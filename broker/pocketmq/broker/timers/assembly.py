"""Builds the timers subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.storing.assembly import Storing
from pocketmq.broker.subject import Subject
from pocketmq.broker.timers.counts import TimerCounts
from pocketmq.broker.timers.files import TimerFiles
from pocketmq.broker.timers.log import TimerLog
from pocketmq.broker.timers.processor import RecallProcessor, TimerProcessor
from pocketmq.broker.timers.rewrite import timer_rewrite
from pocketmq.broker.timers.rules import TimerRules
from pocketmq.broker.timers.service import TimerService
from pocketmq.broker.timers.state import TimerState
from pocketmq.broker.timers.wheel import TimerWheel
from pocketmq.broker.topics.assembly import Topics
from pocketmq.protocol.messages.validation import TIMER_TOPIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers(Subject):
    """The timer messages."""

    service: TimerService
    rules: TimerRules
    counts: TimerCounts
    wheel: TimerWheel


def assemble_timers(core: BrokerCore, topics: Topics, storing: Storing) -> Timers:
    """Rewrites messages with a delivery time; listens to `message_arrived` and `topic_deleted`.

    4.9 has no timers: it ignores such times and delivers at once.
    """
    config, clock, store = core.store.config, core.clock, core.store
    rules = TimerRules.of(
        config.timer_precision_ms,
        config.timer_roll_window_slot,
        lambda: store.config.timer_max_delay_sec * 1000,
        enabled=config.timer_wheel_enable,
    )
    wheel, counts = TimerWheel(rules.precision_ms), TimerCounts()
    timer_log = TimerLog(core.disk, store.root, config.mapped_file_size_timer_log)
    files = TimerFiles(core.disk, store.root, timer_log, wheel, counts)
    state = TimerState(rules, wheel, timer_log, files, counts)
    service = TimerService(store, clock, state, core.stats, storing.puts.when_kept)
    # 4.9 ignores delivery times: it stores such a message in its own topic, for delivery at once
    # (T-105).
    if not core.profile.broker.arbitrary_delay:
        return Timers(service=service, rules=rules, counts=counts, wheel=wheel)
    storing.rewrites.add(timer_rewrite(rules, core.config.name))

    def arrived(_topic: str, _queue_id: int, _end: int, _codes: Sequence[int]) -> None:
        service.arrived()

    core.signals.message_arrived.connect(arrived, TIMER_TOPIC)
    core.signals.topic_deleted.connect(counts.forget)
    recall = RecallProcessor(core, topics.configs, storing.puts, rules)
    return Timers(
        service=service,
        rules=rules,
        counts=counts,
        wheel=wheel,
        processors=(recall,),
        tools=(TimerProcessor(files, counts),),
        # Only a leader fills the wheel, unlike in RocketMQ (T-150): a slave keeps the master's
        # check point and begins there when it leads.
        services=(core.role.while_leading(service),),
    )
