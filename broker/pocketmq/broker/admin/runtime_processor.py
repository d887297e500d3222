"""GET_BROKER_RUNTIME_INFO (28, O-24 to O-26), for tools."""

from __future__ import annotations

import os
from typing import Final

from pocketmq.broker.admin.day_totals import DayTotals
from pocketmq.broker.core import BrokerCore
from pocketmq.broker.delays.delay import DelayPlanner
from pocketmq.broker.overload.overload import Overload
from pocketmq.broker.store.disk.disk import DiskUsage
from pocketmq.broker.timers.assembly import Timers
from pocketmq.protocol.bodies.route import KVTable
from pocketmq.protocol.body import encode_body
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.dispatch import Peer, Reply, handles
from pocketmq.protocol.messages.validation import SCHEDULE_TOPIC, TIMER_TOPIC
from pocketmq.protocol.releases import version_name

_CAPACITIES: Final = {"send": 10_000, "pull": 100_000, "litePull": 100_000, "query": 20_000}
"""Of the queues of RocketMQ's thread pools, which are one turn of the loop here (B-161)."""

NO_POOL: Final = 2**31 - 1
"""Free buffers of a transient store pool that is not there."""


class RuntimeProcessor:
    """Answers with the broker's counters and rates.

    Args:
        core: the store, counters and the clock.
        planner: progress of delay levels.
        timers: progress of timers.
        overload: how long requests wait.
        days: totals at the last midnights.
    """

    def __init__(
        self,
        core: BrokerCore,
        planner: DelayPlanner,
        timers: Timers,
        overload: Overload,
        days: DayTotals,
    ) -> None:
        self._core = core
        self._planner = planner
        self._timers = timers
        self._overload = overload
        self._days = days
        self._booted_ms = core.clock.time_ms()

    @handles(RequestCode.GET_BROKER_RUNTIME_INFO)
    def runtime_info(self, _peer: Peer, request: Command) -> Reply:
        """All under RocketMQ's names, as text: its exporter drops a broker that lacks one."""
        table = {
            **self._identity(),
            **self._puts_and_gets(),
            **self._store(),
            **self._waiting(),
            **self._delays(),
        }
        return request.reply(body=encode_body(KVTable(table=table), request.encoding))

    def _identity(self) -> dict[str, str]:
        version = self._core.profile.client_version
        return {
            "brokerVersion": str(version),
            "brokerVersionDesc": version_name(version),
            "brokerActive": str(self._core.role.works or self._core.role.acts).lower(),
            "bootTimestamp": str(self._booted_ms),
            "runtime": _duration(self._core.clock.time_ms() - self._booted_ms),
            "startAcceptSendRequestTimeStamp": "0",  # sends are taken from the start
        }

    def _puts_and_gets(self) -> dict[str, str]:
        stats, days = self._core.stats, self._days
        count = max(1, stats.put_messages)  # RocketMQ divides by it
        rates = stats.rates(self._core.clock.monotonic())
        return {
            "putMessageTimesTotal": str(count),
            "putMessageFailedTimes": str(stats.puts_failed),
            "putMessageSizeTotal": str(stats.put_bytes),
            "putMessageAverageSize": str(stats.put_bytes / count),
            "putMessageEntireTimeMax": str(stats.put_times.max_ms),
            "putMessageDistributeTime": stats.put_times.distribution(),
            "putLatency99": stats.put_times.percentile(0.99),
            "putLatency999": stats.put_times.percentile(0.999),
            "getMessageEntireTimeMax": str(stats.longest_get_ms),
            **rates,
            "getTransferedTps": rates["getTransferredTps"],  # as 4.9 spells it
            "msgPutTotalYesterdayMorning": str(days.put_yesterday),
            "msgPutTotalTodayMorning": str(days.put_today),
            "msgPutTotalTodayNow": str(stats.put_by_people.messages),
            "msgGetTotalYesterdayMorning": str(days.got_yesterday),
            "msgGetTotalTodayMorning": str(days.got_today),
            "msgGetTotalTodayNow": str(stats.got_by_people.messages),
        }

    def _store(self) -> dict[str, str]:
        store, disk = self._core.store, self._core.disk
        log = store.commit_log
        space = disk.usage(store.root)
        ratio = ratio_text(space)
        return {
            "commitLogMinOffset": str(log.min_offset),
            "commitLogMaxOffset": str(log.max_offset),
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{os.path.join(store.root, 'commitlog')}": ratio,
            "consumeQueueDiskRatio": ratio,  # one partition holds both
            "commitLogDirCapacity": _capacity(space),
            "dispatchMaxBuffer": "0",
            "dispatchBehindBytes": str(max(0, log.max_offset - store.queue_dispatcher.offset)),
            "pageCacheLockTimeMills": "0",  # no append is under way while we answer
            "earliestMessageTimeStamp": str(log.store_time(log.min_offset)),
            "remainHowManyDataToFlush": readable_bytes(store.unflushed_bytes),
            "remainTransientStoreBufferNumbs": str(NO_POOL),
        }

    def _waiting(self) -> dict[str, str]:
        waited_ms = str(self._overload.waited_ms)
        table = {"EndTransactionQueueSize": "0", "EndTransactionThreadPoolQueueCapacity": "100000"}
        for name, capacity in {**_CAPACITIES, "ack": 100_000}.items():
            table[f"{name}ThreadPoolQueueSize"] = "0"
            table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
            table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = waited_ms
        return table

    def _delays(self) -> dict[str, str]:
        service, stats = self._timers.service, self._core.stats
        taken_in = stats.topics.get(TIMER_TOPIC)
        table = {
            "timerReadBehind": str(service.behind_s),
            "timerOffsetBehind": str(service.offset_behind),
            "timerCongestNum": str(self._timers.counts.total),
            "timerEnqueueTps": str(taken_in.minute_tps if taken_in is not None else 0.0),
            "timerDequeueTps": "0.0",
        }
        for level in self._planner.levels:
            end = self._core.store.reads.max_offset(SCHEDULE_TOPIC, level - 1)
            if end:
                table[f"scheduleMessageOffset_{level}"] = f"{self._planner.offset(level)},{end}"
        return table


def readable_bytes(count: int) -> str:
    """`512 B`, `12.3 KiB`, as RocketMQ writes sizes for people."""
    if count < 1024:
        return f"{count} B"
    size, unit = count / 1024, 0
    while size >= 1024 and unit < 5:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {'KMGTPE'[unit]}iB"


def ratio_text(space: DiskUsage) -> str:
    """`0.43`: used space in whole percents, rounded up, as RocketMQ tells it (O-24)."""
    if not space.total_bytes:
        return "-1"
    return str(-(-space.used_bytes * 100 // space.total_bytes) / 100)


def _capacity(space: DiskUsage) -> str:
    """The exporter cuts it at blanks, comma and full stop."""
    free = space.total_bytes - space.used_bytes
    return f"Total : {readable_bytes(space.total_bytes)}, Free : {readable_bytes(free)}."


def _duration(elapsed_ms: int) -> str:
    seconds = elapsed_ms // 1000
    days, hours, minutes = seconds // 86400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days:,} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"
