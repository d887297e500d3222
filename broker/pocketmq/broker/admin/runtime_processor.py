"""GET_BROKER_RUNTIME_INFO (28): counters and rates for people and tools (E-66)."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.broker.delays.delay import DelayPlanner
from pocketmq.broker.stats import BrokerStats
from pocketmq.broker.store import MessageStore
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.validation import SCHEDULE_TOPIC
from pocketmq.runtime.clock import Clock


class RuntimeProcessor:
    """Tells how much goes through the broker.

    Args:
        store: ends of the log and of the delay levels.
        planner: progress of delay levels.
        stats: rates.
        clock: now.
        disk_ratio: how full the store's partition is, 0 to 1.
    """

    def __init__(
        self,
        store: MessageStore,
        planner: DelayPlanner,
        stats: BrokerStats,
        clock: Clock,
        *,
        disk_ratio: Callable[[], float],
    ) -> None:
        self._store = store
        self._planner = planner
        self._stats = stats
        self._clock = clock
        self._disk_ratio = disk_ratio
        self._booted_ms = clock.time_ms()

    @handles(RequestCode.GET_BROKER_RUNTIME_INFO)
    def runtime_info(self, _peer: Peer, request: Command) -> Reply:
        """Counters and rates under RocketMQ's names, all text."""
        now_ms, stats, log = self._clock.time_ms(), self._stats, self._store.commit_log
        count = stats.put_messages
        table = {
            "brokerVersionDesc": "PocketMQ",
            "brokerActive": "true",
            "bootTimestamp": str(self._booted_ms),
            "runtime": _duration(now_ms - self._booted_ms),
            "putMessageTimesTotal": str(count),
            "putMessageSizeTotal": str(stats.put_bytes),
            "putMessageAverageSize": f"{stats.put_bytes / count:.1f}" if count else "0",
            "msgPutTotalTodayNow": str(count),
            "msgGetTotalTodayNow": str(stats.got_messages),
            "commitLogMinOffset": str(log.min_offset),
            "commitLogMaxOffset": str(log.max_offset),
            "commitLogDiskRatio": f"{self._disk_ratio():.4f}",
            "startAcceptSendRequestTimeStamp": str(self._booted_ms),
        }
        table |= stats.rates(self._clock.monotonic())
        for level in self._planner.levels:
            end = self._store.max_offset(SCHEDULE_TOPIC, level - 1)
            if end:
                table[f"scheduleMessageOffset_{level}"] = f"{self._planner.offset(level)},{end}"
        return request.reply(body=encode_body(KVTable(table=table), request.encoding))


def _duration(elapsed_ms: int) -> str:
    seconds = elapsed_ms // 1000
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"
