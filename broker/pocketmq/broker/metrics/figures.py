"""What a broker's metrics tell beside its meters, read from its subjects when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from pocketmq.broker.core import BrokerCore
from pocketmq.broker.groups.consumers import ClientChannelInfo, ConsumerManager
from pocketmq.broker.groups.producers import ProducerManager
from pocketmq.broker.metrics.group_lag import LagReader
from pocketmq.broker.pop.assembly import Pop
from pocketmq.broker.stats.message_type import MessageType
from pocketmq.broker.stats.meters import Distribution
from pocketmq.broker.timers.assembly import Timers
from pocketmq.operation import metrics
from pocketmq.operation.metrics import STORE_VALUES, Metric
from pocketmq.protocol.codes import LanguageCode
from pocketmq.protocol.messages.validation import (
    SYSTEM_GROUP_PREFIX,
    is_dlq,
    is_retry,
    is_system_topic,
)
from pocketmq.protocol.releases import version_name

PROTOCOL: Final = "remoting"
_MODES: Final = {
    "CONSUME_ACTIVELY": "pull",
    "CONSUME_PASSIVELY": "push",
    "CONSUME_POP": "pop",
}


class Figure(NamedTuple):
    """One number of a counter or a gauge, or one histogram."""

    metric: Metric
    labels: tuple[str, ...]
    value: int | Distribution


Figures = Iterator[Figure]


def text(value: bool) -> str:
    """As labels say it."""
    return "true" if value else "false"


def traffic_figures(core: BrokerCore) -> Figures:
    """What was sent, and handed out. Retry and dead letter topics are left out, as in RocketMQ."""
    stats = core.stats
    for topic, traffic in list(stats.topics.items()):
        if traffic.sent is None or is_retry(topic) or is_dlq(topic):
            continue
        for number, messages, size_bytes, buckets in traffic.sent.rows():
            kind = MessageType(number).name.lower()
            labels = (topic, kind, text(is_system_topic(topic)))
            sizes = Distribution(metrics.MESSAGE_SIZE.bounds)
            sizes.counts, sizes.total = buckets, size_bytes
            yield Figure(metrics.MESSAGES_IN, labels, messages)
            yield Figure(metrics.BYTES_IN, labels, size_bytes)
            yield Figure(metrics.MESSAGE_SIZE, labels, sizes)
    popped = stats.meters.popped
    for (topic, group), traffic in list(stats.groups.items()):
        system = text(_is_system(topic, group))
        messages, size_bytes = traffic.messages, traffic.size_bytes
        # All at once: it may change while this generator waits.
        pops = [(retry, *popped.get((topic, group, retry), (0, 0))) for retry in (False, True)]
        for retry, count, bytes_out in pops:
            if not count:
                continue
            out = (topic, group, system, text(retry))
            yield Figure(metrics.MESSAGES_OUT, out, count)
            yield Figure(metrics.BYTES_OUT, out, bytes_out)
            messages, size_bytes = messages - count, size_bytes - bytes_out
        # The rest was pulled.
        if messages and not (is_retry(topic) or is_dlq(topic)):
            out = (topic, group, system, "")
            yield Figure(metrics.MESSAGES_OUT, out, messages)
            yield Figure(metrics.BYTES_OUT, out, size_bytes)


def meter_figures(core: BrokerCore) -> Figures:
    """The meters, each with the labels that follow from others."""
    meters = core.stats.meters
    for metric, series in list(meters.counts.items()):
        for labels, count in list(series.items()):
            yield Figure(metric, _completed(metric, labels), count)
    for metric, spread in list(meters.distributions.items()):
        for labels, distribution in list(spread.items()):
            yield Figure(metric, _completed(metric, labels), distribution)


def store_figures(core: BrokerCore) -> Figures:
    """Of the store and its disk."""
    store, log = core.store, core.store.commit_log
    space = core.disk.usage(store.root)
    behind = max(0, log.max_offset - store.queue_dispatcher.offset)
    yield Figure(metrics.BROKER_PERMISSION, (), core.config.broker_permission)
    yield Figure(metrics.STORAGE_SIZE, STORE_VALUES, space.used_bytes)
    yield Figure(metrics.FLUSH_BEHIND, STORE_VALUES, store.unflushed_bytes)
    yield Figure(metrics.DISPATCH_BEHIND, STORE_VALUES, behind)
    oldest_ms = log.store_time(log.min_offset)
    if oldest_ms > 0:
        age_ms = max(0, core.clock.time_ms() - oldest_ms)
        yield Figure(metrics.RESERVE_TIME, STORE_VALUES, age_ms)


def connection_figures(consumers: ConsumerManager, producers: ProducerManager) -> Figures:
    """Who is connected, by language and version."""
    sending = Counter(
        (*_client(info), PROTOCOL)
        for members in producers.groups.values()
        for info in members.values()
    )
    for labels, count in sending.items():
        yield Figure(metrics.PRODUCER_CONNECTIONS, labels, count)
    consuming: Counter[tuple[str, ...]] = Counter()
    for group, known in consumers.groups.items():
        mode = _MODES.get(known.consume_type, known.consume_type.lower())
        for info in known.members.values():
            system = text(_is_system_group(group))
            consuming[(group, *_client(info), mode, PROTOCOL, system)] += 1
    for each, count in consuming.items():
        yield Figure(metrics.CONSUMER_CONNECTIONS, each, count)


def lag_figures(reader: LagReader, core: BrokerCore) -> Figures:
    """How far groups are behind."""
    now_ms = core.clock.time_ms()

    def age_ms(since_ms: int) -> int:
        return max(0, now_ms - since_ms) if since_ms else 0

    for lag in reader.lags():
        system = text(_is_system(lag.topic, lag.group))
        labels = (lag.group, lag.topic, text(lag.is_retry), system)
        yield Figure(metrics.LAG_MESSAGES, labels, lag.lag)
        yield Figure(metrics.LAG_LATENCY, labels, age_ms(lag.lag_since_ms))
        yield Figure(metrics.IN_FLIGHT, labels, lag.in_flight)
        yield Figure(metrics.QUEUEING_LATENCY, labels, age_ms(lag.queueing_since_ms))
        yield Figure(metrics.READY, labels, lag.ready)


def timer_figures(timers: Timers, core: BrokerCore) -> Figures:
    """Of the timer messages."""
    service = timers.service
    yield Figure(metrics.TIMER_ENQUEUE_LAG, STORE_VALUES, service.offset_behind)
    yield Figure(metrics.TIMER_DEQUEUE_LAG, STORE_VALUES, timers.wheel.waiting)
    yield Figure(metrics.TIMER_DEQUEUE_LATENCY, STORE_VALUES, service.behind_s)
    for topic, count in timers.counts.table().items():
        yield Figure(metrics.TIMING_MESSAGES, (*STORE_VALUES, topic), count.count)
    for bound_s, waiting in timers.wheel.ahead(core.clock.time_ms(), metrics.TIMER_BOUNDS_S):
        yield Figure(metrics.TIMER_SNAPSHOT, (*STORE_VALUES, str(bound_s)), waiting)


def pop_figures(pop: Pop) -> Figures:
    """Of what was popped and is not settled; nothing where there is no pop."""
    if pop.buffer is not None:
        yield Figure(metrics.POP_CHECKPOINTS, (), len(pop.buffer))
        yield Figure(metrics.POP_OFFSETS, (), pop.buffer.ordered)
    if pop.revive is not None:
        for queue_id, (count, late_ms) in enumerate(pop.revive.behind()):
            yield Figure(metrics.POP_REVIVE_LAG, (str(queue_id),), count)
            yield Figure(metrics.POP_REVIVE_LATENCY, (str(queue_id),), late_ms)


def _client(info: ClientChannelInfo) -> tuple[str, str]:
    """Its language and version, as labels."""
    return LanguageCode(info.language).name.lower(), version_name(info.version).lower()


def _is_system(topic: str, group: str) -> bool:
    return is_system_topic(topic) or _is_system_group(group)


def _is_system_group(group: str) -> bool:
    return group.upper().startswith(SYSTEM_GROUP_PREFIX)


def _completed(metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
    """The labels with those of the store and `is_system`, which nobody counts by."""
    if metric.labels[:2] == metrics.STORE:
        return (*STORE_VALUES, *labels)
    if metric is metrics.SENT_TO_DLQ:
        group, topic = labels
        return (*labels, text(_is_system(topic, group)))
    return labels
